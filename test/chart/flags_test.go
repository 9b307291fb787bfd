package chart_test

import (
	"flag"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/garboard/garboard/test/e2e/plane"
)

// program is the program that a container of the chart runs.
type program struct {
	name string // the image's name, without its registry
	args []string
}

// programs returns the programs of all pods rendered from a set of values.
func programs(t *testing.T, set string) (found []program) {
	t.Helper()
	for _, object := range rendered(t, set) {
		path := []string{"spec", "template", "spec", "containers"}
		if object.GetKind() == "Pod" {
			path = []string{"spec", "containers"}
		}
		containers, _, err := unstructured.NestedSlice(object.Object, path...)
		if err != nil {
			t.Fatal(err)
		}
		path[len(path)-1] = "initContainers"
		before, _, err := unstructured.NestedSlice(object.Object, path...)
		if err != nil {
			t.Fatal(err)
		}
		containers = append(containers, before...)
		for _, container := range containers {
			described, ok := container.(map[string]any)
			if !ok {
				t.Fatalf("%s has the container %v", object.GetName(), container)
			}
			image, _, _ := unstructured.NestedString(described, "image")
			args, _, err := unstructured.NestedStringSlice(described, "args")
			if err != nil {
				t.Fatal(err)
			}
			name := regexp.MustCompile(`([a-z]+/[a-z]+)(:|@)[^/]*$`).FindStringSubmatch(image)
			if name == nil {
				t.Fatalf("the image %q", image)
			}
			found = append(found, program{name: name[1], args: args})
		}
	}
	return found
}

var flagName = regexp.MustCompile(`(?m)^ +(?:-[a-zA-Z], )?--([a-z][a-z0-9-]*)`)

// TestFlags checks that the chart passes no unknown flag to any program. Garboard's programs are
// asked for their flags.
func TestFlags(t *testing.T) {
	known := map[string]map[string]bool{} // by program and subcommand
	dir := t.TempDir()
	help := func(key, binary string, args ...string) {
		output, err := exec.CommandContext(t.Context(), binary, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", key, args, err, output)
		}
		if known[key] == nil {
			known[key] = map[string]bool{}
		}
		for _, match := range flagName.FindAllStringSubmatch(string(output), -1) {
			known[key][match[1]] = true
		}
	}
	for _, service := range []string{"apiserver", "controllers", "scheduler", "nodeagent"} {
		binary := plane.Build(t, dir, service)
		help("garboard/"+service, binary, "--help")
		if err := os.Remove(binary); err != nil {
			t.Error(err)
		}
	}
	cli := plane.Binary(t)
	help("garboard/cli init", cli, "init", "--help")
	help("garboard/cli token create", cli, "token", "create", "--help")
	help("garboard/cli kubectl", cli, "kubectl", "get", "--help")
	help("garboard/cli kubectl", cli, "kubectl", "options")
	etcd := flag.NewFlagSet("etcd", flag.ContinueOnError)
	embed.NewConfig().AddFlags(etcd)
	// Only etcd's program declares this flag, not its library.
	known["coreos/etcd"] = map[string]bool{"initial-cluster-state": true}
	etcd.VisitAll(func(f *flag.Flag) { known["coreos/etcd"][f.Name] = true })
	// From `nats-server --help` of 2.15.
	known["library/nats"] = map[string]bool{"config": true, "debug": true}

	asked := map[string]bool{}
	for _, set := range valueSets(t) {
		for _, program := range programs(t, set) {
			key, args := program.name, program.args
			if key == "garboard/cli" {
				for len(args) > 0 && !strings.HasPrefix(args[0], "-") {
					key, args = key+" "+args[0], args[1:]
				}
				// Ignore what follows a command of kubectl, or one of its flags.
				if strings.HasPrefix(key, "garboard/cli kubectl") {
					key = "garboard/cli kubectl"
				}
			}
			if known[key] == nil {
				t.Fatalf("%s: the flags of %s are unknown", set, key)
			}
			asked[key] = true
			for _, arg := range args {
				name, isFlag := strings.CutPrefix(arg, "--")
				name, _, _ = strings.Cut(name, "=")
				if isFlag && !known[key][name] {
					t.Errorf("%s: %s has no flag --%s", set, key, name)
				}
			}
		}
	}
	for key := range known {
		if !asked[key] {
			t.Errorf("the chart never runs %s", key)
		}
	}
}

// TestEtcdArguments checks that etcd parses its arguments.
func TestEtcdArguments(t *testing.T) {
	for _, set := range valueSets(t) {
		for _, program := range programs(t, set) {
			if program.name != "coreos/etcd" {
				continue
			}
			cfg := embed.NewConfig()
			flags := flag.NewFlagSet("etcd", flag.ContinueOnError)
			flags.SetOutput(io.Discard)
			cfg.AddFlags(flags)
			name := regexp.MustCompile(`,?([a-z0-9-]+)-0=`).FindStringSubmatch(strings.Join(program.args, "\n"))[1] + "-0"
			args := slices.DeleteFunc(slices.Clone(program.args), func(arg string) bool { return arg == "--initial-cluster-state=new" })
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "$(POD_NAME)", name)
			}
			if err := flags.Parse(args); err != nil {
				t.Fatalf("%s: %v", set, err)
			}
			if cfg.Name != name || !strings.Contains(cfg.InitialCluster, name+"=https://"+name+".") || cfg.QuotaBackendBytes < 1<<30 {
				t.Errorf("%s: got the member %s of %s with a quota of %d bytes", set, cfg.Name, cfg.InitialCluster, cfg.QuotaBackendBytes)
			}
			if !cfg.ClientTLSInfo.ClientCertAuth || !cfg.PeerTLSInfo.ClientCertAuth || cfg.ClientTLSInfo.TrustedCAFile == "" || cfg.PeerTLSInfo.TrustedCAFile == "" {
				t.Errorf("%s: etcd accepts peers or clients without a certificate", set)
			}
		}
	}
}
