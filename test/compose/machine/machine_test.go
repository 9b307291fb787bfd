package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

const root = "../../.."

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestVersions checks that the servers are built at the versions that the module itself requires.
func TestVersions(t *testing.T) {
	ours, theirs := read(t, "go.mod"), read(t, "test/compose/machine/thirdparty/go.mod")
	for module, version := range map[string]string{
		"github.com/nats-io/nats-server/v2": natsVersion,
		"go.etcd.io/etcd/server/v3":         etcdVersion,
		"go.etcd.io/etcd/client/v3":         etcdVersion,
	} {
		for name, file := range map[string]string{"go.mod": ours, "thirdparty/go.mod": theirs} {
			if !regexp.MustCompile(`(?m)^\s+` + regexp.QuoteMeta(module+" v"+version) + `( // indirect)?$`).MatchString(file) {
				t.Errorf("%s does not require %s at %s", name, module, version)
			}
		}
	}
	for _, tool := range []string{"etcdctl", "etcdutl"} {
		if !strings.Contains(theirs, "go.etcd.io/etcd/"+tool+"/v3 v"+etcdVersion) {
			t.Errorf("%s is not built at %s", tool, etcdVersion)
		}
	}
	if !regexp.MustCompile(`(?m)^go ` + regexp.QuoteMeta(goVersion) + `(\.\d+)?$`).MatchString(ours) {
		t.Errorf("the module is not built with Go %s", goVersion)
	}
}

// TestNames checks that every image named in the product's files has a stand-in.
func TestNames(t *testing.T) {
	known := map[string]bool{base: true}
	for _, image := range images() {
		if known[image.name] {
			t.Errorf("%s is built twice", image.name)
		}
		known[image.name] = true
		if _, err := fs.Stat(recipes, "recipes/"+image.recipe+"/Dockerfile"); err != nil {
			t.Errorf("%s: %v", image.name, err)
		}
	}
	for _, found := range regexp.MustCompile(`(?m)^(?:FROM (?:--\S+ )?|ARG \w+_IMAGE=)(\S+)`).FindAllStringSubmatch(read(t, "Dockerfile"), -1) {
		if name := found[1]; strings.Contains(name, ":") && !known[name] {
			t.Errorf("the Dockerfile is based on %s, which has no stand-in", name)
		}
	}
	settings := map[string]string{}
	for _, found := range regexp.MustCompile(`(?m)^([A-Z_]+)=(.*)$`).FindAllStringSubmatch(read(t, "compose/.env"), -1) {
		settings["${"+found[1]+"}"] = found[2]
	}
	used := 0
	for _, found := range regexp.MustCompile(`(?m)^\s+image: (\S+)$`).FindAllStringSubmatch(read(t, "compose/compose.yaml"), -1) {
		name := regexp.MustCompile(`\$\{[A-Z_]+\}`).ReplaceAllStringFunc(found[1], func(one string) string { return settings[one] })
		if strings.HasPrefix(name, "garboard/") {
			continue
		}
		used++
		if !known[name] {
			t.Errorf("compose.yaml names the image %s, which has no stand-in", name)
		}
	}
	if used == 0 {
		t.Error("compose.yaml names no third-party image")
	}
}

func TestLacking(t *testing.T) {
	for _, c := range []struct {
		bounding, last string
		want           bool
	}{
		{"000001ffffffffff", "40\n", false},
		{"000001fffeffffff", "40\n", true},
		{"0000003fffffffff", "37\n", false},
		{"0000003fffffffff", "40\n", true},
		{"000001ffffffffff", "37\n", false},
	} {
		got, err := lacking("Name:\tx\nCapBnd:\t"+c.bounding+"\nCapAmb:\t0\n", c.last)
		if err != nil || got != c.want {
			t.Errorf("%s of %s: got %t, %v", c.bounding, c.last, got, err)
		}
	}
	for _, bad := range [][2]string{{"CapBnd:\tx\n", "40"}, {"", "40"}, {"CapBnd:\t1\n", "x"}} {
		if _, err := lacking(bad[0], bad[1]); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// TestDigest checks that an image is rebuilt when any part of its recipe changes.
func TestDigest(t *testing.T) {
	recipe := fstest.MapFS{"Dockerfile": {Data: []byte("FROM x\n")}, "etc/file": {Data: []byte("1")}}
	first, err := digest(recipe, "1")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := digest(recipe, "1"); err != nil || again != first {
		t.Errorf("got %s, then %s: %v", first, again, err)
	}
	if other, err := digest(recipe, "2"); err != nil || other == first {
		t.Errorf("another version has the same digest: %v", err)
	}
	recipe["etc/file"] = &fstest.MapFile{Data: []byte("2")}
	if other, err := digest(recipe, "1"); err != nil || other == first {
		t.Errorf("another file has the same digest: %v", err)
	}
}

// TestProcess checks that the number in the daemon's file counts only while it belongs to the
// daemon.
func TestProcess(t *testing.T) {
	m := machine{dir: t.TempDir()}
	if _, running := m.process(); running {
		t.Error("a daemon that was never started is reported as running")
	}
	for _, content := range []string{"", "x", "0", strconv.Itoa(os.Getpid())} {
		if err := os.WriteFile(m.pidFile(), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, running := m.process(); running {
			t.Errorf("%q is taken for the daemon", content)
		}
	}
	program := filepath.Join(t.TempDir(), "dockerd")
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, data, 0o700); err != nil {
		t.Fatal(err)
	}
	daemon := exec.CommandContext(t.Context(), program, "600")
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- daemon.Wait() }()
	if err := os.WriteFile(m.pidFile(), []byte(strconv.Itoa(daemon.Process.Pid)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if process, running := m.process(); !running || process.Pid != daemon.Process.Pid {
		t.Error("the daemon is not found")
	}
	if err := m.end(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("the daemon ended by itself")
	}
	if _, running := m.process(); running {
		t.Error("the daemon is found after its end")
	}
}

func TestCommand(t *testing.T) {
	for _, args := range [][]string{nil, {"up", "x"}, {"run"}, {"fly"}, {"-unknown"}} {
		if err := command(t.Context(), args); err == nil {
			t.Errorf("%v was accepted", args)
		}
	}
}

// TestImagesTakeDigests checks that a deployment can pin every third-party image by digest without a
// change of the sources: the Dockerfile and compose.yaml name each by a setting of .env at whose end
// a digest may follow.
func TestImagesTakeDigests(t *testing.T) {
	settings := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^([A-Z_]+)=.`).FindAllStringSubmatch(read(t, "compose/.env"), -1) {
		settings[found[1]] = true
	}
	compose, dockerfile := read(t, "compose/compose.yaml"), read(t, "Dockerfile")
	stages, pinned := map[string]bool{"scratch": true}, 0
	for _, from := range regexp.MustCompile(`(?mi)^FROM +(?:--\S+ +)*(\S+)(?: +AS +(\S+))?`).FindAllStringSubmatch(dockerfile, -1) {
		stages[from[2]] = true
		if stages[from[1]] {
			continue
		}
		argument := regexp.MustCompile(`^\$\{([A-Z_]+)\}$`).FindStringSubmatch(from[1])
		if argument == nil {
			t.Errorf("the Dockerfile is based on %s, which no build argument replaces", from[1])
			continue
		}
		pinned++
		if !regexp.MustCompile(`(?m)^ARG ` + argument[1] + `=`).MatchString(dockerfile) {
			t.Errorf("the Dockerfile has no default of %s", argument[1])
		}
		if !settings[argument[1]] || !regexp.MustCompile(`(?m)^ +`+argument[1]+`: \$\{`+argument[1]+`\}$`).MatchString(compose) {
			t.Errorf("compose does not pass %s from .env", argument[1])
		}
	}
	for _, copied := range regexp.MustCompile(`--from=(\S+)`).FindAllStringSubmatch(dockerfile, -1) {
		if !stages[copied[1]] {
			t.Errorf("the Dockerfile copies from %s, which is not one of its stages", copied[1])
		}
	}
	for _, image := range regexp.MustCompile(`(?m)^\s*image: (\S+)$`).FindAllStringSubmatch(compose, -1) {
		if strings.HasPrefix(image[1], "garboard/") {
			continue
		}
		pinned++
		if tag := regexp.MustCompile(`:\$\{([A-Z_]+)\}$`).FindStringSubmatch(image[1]); tag == nil || !settings[tag[1]] {
			t.Errorf("the tag of %s in compose.yaml is not a setting of .env", image[1])
		}
	}
	// Go and the node's base; etcd, NATS, HAProxy and Prometheus.
	if pinned != 6 {
		t.Errorf("found %d third-party images, want 6", pinned)
	}
}
