//go:build compose

package compose_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/garboard/garboard/test/compose/project"
	"github.com/garboard/garboard/test/containers/harness"
)

// tutorialTimeout bounds all of the tutorial, the building of programs and images included.
const tutorialTimeout = 40 * time.Minute

// longRunning are the beginnings of the tutorial's commands that a user stops with Ctrl-C, and what they print once
// they work. An empty text means that it is not printed before the next command.
var longRunning = map[string]string{
	"make up ":                 "Garboard is up",
	"bin/garboard watch pods ": "",
	"go run ./first":           "added nginx-deployment-",
}

// printed are texts that the output of the tutorial's steps has, by the number of the step.
var printed = map[int][]string{
	3: {"deployment \"nginx-deployment\" successfully rolled out"},
	4: {`"type":"DELETED"`},
	5: {"StartContainer nginx"},
	8: {"nginx-deployment created"},
	9: {"Welcome to nginx!"},
}

// TestFirstHour runs the tutorial's commands as they are written, in a clone of the repository: of what is committed.
func TestFirstHour(t *testing.T) {
	require(t)
	page, err := os.ReadFile(filepath.Join(root, "docs", "tutorial.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "garboard")
	if out, err := exec.CommandContext(t.Context(), "git", "clone", "-q", root, dir).CombinedOutput(); err != nil {
		t.Fatalf("cloning the repository: %v: %s", err, out)
	}
	name := fmt.Sprintf("gbhour%d", os.Getpid())
	settings := map[string]string{"GARBOARD_PORT": freePort(t), "PROMETHEUS_PORT": freePort(t), "GARBOARD_MTU": "1400", "COMPOSE_PROJECT_NAME": name}
	p, err := project.New(project.Config{Name: name, Source: dir, Settings: settings, Log: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	gateway, err := p.Gateway(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	settings["GARBOARD_REGISTRY_MIRROR"] = "http://" + harness.ServeImages(t, gateway+":0")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), downTimeout)
		defer cancel()
		if err := p.Down(ctx); err != nil {
			t.Errorf("taking the plane down: %v", err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), tutorialTimeout)
	defer cancel()
	began := time.Now()
	all := steps(string(page))
	if last := slices.Max(slices.Collect(maps.Keys(printed))); len(all) != last {
		t.Fatalf("the tutorial has %d numbered sections, want %d", len(all), last)
	}
	for _, s := range all {
		start := time.Now()
		output, err := s.run(ctx, dir, settings)
		if err != nil {
			t.Fatalf("step %d: %v\n%s", s.number, err, output)
		}
		for _, text := range printed[s.number] {
			if !strings.Contains(output, text) {
				t.Errorf("step %d does not print %q:\n%s", s.number, text, output)
			}
		}
		t.Logf("step %d took %v, %v since the clone", s.number, time.Since(start).Round(time.Second), time.Since(began).Round(time.Second))
	}
	if left, err := p.Leftovers(ctx); err != nil || len(left) > 0 {
		t.Errorf("the tutorial's last command leaves %v, %v", left, err)
	}
}

// step is a numbered section of the tutorial.
type step struct {
	number int
	// script are the section's commands.
	script string
}

// steps returns the tutorial's sections as scripts. Each script goes on in the environment of the one before.
func steps(page string) []step {
	var all []step
	blocks := func(section string) string {
		var script strings.Builder
		for {
			_, rest, more := strings.Cut(section, "```")
			if !more {
				return script.String()
			}
			block, after, _ := strings.Cut(rest, "```")
			section = after
			switch language, text, _ := strings.Cut(block, "\n"); language {
			case "sh":
				script.WriteString(commands(text))
			case "go":
				fmt.Fprintf(&script, "mkdir -p first\ncat > first/main.go <<'END'\n%sEND\n", text)
			}
		}
	}
	for i, section := range strings.Split(page, "\n## ")[1:] {
		if strings.HasPrefix(section, fmt.Sprint(i+1, ".")) {
			all = append(all, step{i + 1, blocks(section)})
		}
	}
	return all
}

// commands returns a block's commands for a script: those that run until Ctrl-C in the background, and those whose
// exit code is a diagnosis without it.
func commands(block string) string {
	if strings.HasPrefix(block, "bin/garboard doctor") {
		block = strings.Replace(block, "bin/garboard doctor", "bin/garboard doctor || test $? = 1", 1)
	}
	block = strings.Replace(block, "\nbin/garboard doctor", "\nbin/garboard doctor || test $? = 1", 1)
	for begin, ready := range longRunning {
		if strings.HasPrefix(block, begin) && !strings.Contains(block, "--no-follow") {
			return fmt.Sprintf("background %q <<'END'\n%sEND\n", ready, block)
		}
	}
	return block
}

// prologue is what a script begins with. The environment and the programs in the background are handed on through
// files. interrupt stops the latter; that of step 7 is the tutorial's Ctrl-C.
const (
	prologue = `set -euo pipefail
touch environment background
. ./environment
trap 'declare -px KUBECONFIG > environment 2>/dev/null || true; cat output.* 2>/dev/null || true' EXIT
background() {
	cat > command
	log=$(mktemp ./output.XXXXXX)
	setsid bash command > "$log" 2>&1 </dev/null &
	echo $! >> background
	for _ in $(seq 1200); do
		if [ -z "$1" ] || grep -q -- "$1" "$log"; then sleep 1; return; fi
		kill -0 $! || break
		sleep 1
	done
	cat "$log"
	return 1
}
`
	interrupt = `
while read -r pid; do
	kill -TERM -- "-$pid" || true
	while kill -0 -- "-$pid" 2>/dev/null; do sleep 1; done
done < background
rm -f background output.*
`
)

// run runs the step's commands, and returns what they printed.
func (s step) run(ctx context.Context, dir string, settings map[string]string) (string, error) {
	script := prologue + s.script
	if s.number == 7 {
		script += interrupt
	}
	command := exec.CommandContext(ctx, "bash", "-c", script)
	command.Dir = dir
	command.Env = os.Environ()
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		command.Env = append(command.Env, key+"="+settings[key])
	}
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error {
		return errors.Join(interrupted(dir), syscall.Kill(-command.Process.Pid, syscall.SIGKILL))
	}
	command.WaitDelay = time.Minute
	output, err := command.CombinedOutput()
	if err != nil {
		err = errors.Join(err, interrupted(dir))
	}
	return string(output), err
}

// interrupted stops the programs that a failed step left in the background.
func interrupted(dir string) error {
	command := exec.Command("bash", "-c", "touch background\n"+interrupt)
	command.Dir = dir
	return command.Run()
}
