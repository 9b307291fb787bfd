package arch_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/garboard/garboard/test/arch"
)

// root is the module's root, relative to this package's folder.
const root = "../.."

func TestTreeKeepsItsRules(t *testing.T) {
	found, err := arch.Check(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, violation := range found {
		t.Error(violation)
	}
}

func TestEveryExceptionIsNeeded(t *testing.T) {
	found, err := arch.StaleExceptions(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, violation := range found {
		t.Error(violation)
	}
	// No exception is needed in a tree without imports.
	found, err = arch.StaleExceptions(writeTree(t, map[string]string{"libs/bus/conn.go": "package bus\n"}))
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range []string{"NATS is known only to libs/bus", "see clientGoRooms", "time.Sleep",
		"remove it from wideFolders", "remove it from longFunctions", "remove it from servingOne", "remove it from testedElsewhere", "optional interfaces"} {
		if !slices.ContainsFunc(found, func(v arch.Violation) bool { return strings.Contains(v.Why, rule) }) {
			t.Errorf("found %v, want a stale exception: %s", found, rule)
		}
	}
}

// TestNodeAgentLinksNoEtcd asks the go tool, since a dependency may be transitive. The Makefile
// runs it with -count=1, because the test cache does not see what a command reads.
func TestNodeAgentLinksNoEtcd(t *testing.T) {
	for _, command := range []string{"nodeagent", "controllers", "scheduler"} {
		list := exec.CommandContext(t.Context(), "go", "list", "-deps", "./cmd/"+command)
		list.Dir = root
		output, err := list.Output()
		if err != nil {
			t.Fatalf("listing the dependencies of cmd/%s: %v", command, err)
		}
		for dependency := range strings.Lines(string(output)) {
			if strings.HasPrefix(dependency, "go.etcd.io/") {
				t.Errorf("cmd/%s links %s", command, strings.TrimSpace(dependency))
			}
		}
	}
}

func TestRulesCatch(t *testing.T) {
	long := strings.Repeat("// one more line\n", arch.MaxFileLines)
	longTest := strings.Repeat("// one more line\n", arch.MaxTestFileLines)
	cases := []struct {
		name, file, source, want string
	}{
		{
			"a service imports another", "services/scheduler/internal/queue/queue.go",
			`import _ "github.com/garboard/garboard/services/controllers"`, "services never import each other",
		},
		{
			"a command imports a service's internals", "cmd/apiserver/main.go",
			`import _ "github.com/garboard/garboard/services/apiserver/internal/storage/store"`, "only door",
		},
		{
			"a library imports a service", "libs/client/client.go",
			`import _ "github.com/garboard/garboard/services/apiserver"`, "libraries never import services",
		},
		{
			"etcd outside the store", "services/apiserver/internal/registry/registry.go",
			`import _ "go.etcd.io/etcd/client/v3"`, "only the apiserver's storage package",
		},
		{
			"etcd's server in a service", "services/apiserver/server.go",
			`import _ "go.etcd.io/etcd/server/v3/embed"`, "etcd's server",
		},
		{
			"nats outside the bus", "libs/informer/fabricsource/follow.go",
			`import _ "github.com/nats-io/nats.go"`, "known only to libs/bus",
		},
		{
			"CRI outside the runtime", "services/nodeagent/internal/syncloop/loop.go",
			`import _ "k8s.io/cri-api/pkg/apis/runtime/v1"`, "container runtime",
		},
		{
			"client-go's cache in a controller", "services/controllers/internal/deployment/sync.go",
			`import _ "k8s.io/client-go/tools/cache"`, "libs/informer takes its place",
		},
		{
			"a client-go package that the folder does not need", "libs/client/cached.go",
			`import _ "k8s.io/client-go/discovery"`, "does not allow in libs/client:",
		},
		{
			"a client-go package below a folder that may import it", "libs/client/fake/fake.go",
			`import _ "k8s.io/client-go/rest"`, "does not allow in libs/client/fake",
		},
		{
			"the clientset in a test program", "test/chaos/load/load.go",
			`import _ "k8s.io/client-go/kubernetes"`, "drags in every kind",
		},
		{
			"an API group in a generic room", "services/apiserver/internal/http/rest/scale.go",
			`import _ "k8s.io/api/autoscaling/v1"`, "treats all kinds alike",
		},
		{
			"Helm outside the end-to-end tests", "services/apiserver/internal/registry/registry_test.go",
			`import _ "helm.sh/helm/v3/pkg/action"`, "Helm is a user of the plane",
		},
		{"a file over the cap", "libs/scheme/long.go", long, "one subject a file"},
		{"a test file over the cap", "libs/scheme/long_test.go", longTest, "one subject a file"},
		{
			"a long line", "libs/scheme/long.go", "var _ = " + strings.Repeat("1 + ", 34) + "1", "more than 140 columns",
		},
		{"a long function", "libs/scheme/long.go", "func long() {" + strings.Repeat("\n", arch.MaxFunctionLines) + "}", "has long with 81 lines"},
		{"an init function", "libs/scheme/registry.go", "func init() {}", "init function"},
		{"a test that sleeps", "libs/bus/conn_test.go", `import "time"; var _ = func() { time.Sleep(1) }`, "poll with a deadline"},
		{"a meaningless package name", "libs/util/strings.go", "", "says nothing"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			found := checkTree(t, c.file, c.source)
			if len(found) != 1 || !strings.Contains(found[0].Why, c.want) {
				t.Errorf("found %v, want one violation with %q", found, c.want)
			}
		})
	}
}

// TestContractsHaveTheirParties checks that both services must use a contract between them.
func TestContractsHaveTheirParties(t *testing.T) {
	found := checkTree(t, "libs/nodeapi/log.go", "")
	if len(found) != 2 || !strings.Contains(found[0].Why, "services/apiserver does not use") || !strings.Contains(found[1].Why, "services/nodeagent does not use") {
		t.Errorf("found %v, want a violation for each of the two services", found)
	}
}

func TestRulesAllow(t *testing.T) {
	cases := []struct{ name, file, source string }{
		{"the store uses etcd", "services/apiserver/internal/storage/store/store.go", `import _ "go.etcd.io/etcd/client/v3"`},
		{"standalone composes", "services/standalone/standalone.go", `import _ "github.com/garboard/garboard/services/controllers"`},
		{"a service uses its own packages", "services/scheduler/scheduler.go", `import _ "github.com/garboard/garboard/services/scheduler/internal/queue"`},
		{
			"a differential test", "libs/informer/workqueue/queue_test.go",
			`import _ "k8s.io/client-go/util/workqueue"; func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }`,
		},
		{"a folder that may use client-go", "libs/client/client.go", `import _ "k8s.io/client-go/rest"`},
		{"a test file over the cap for other files", "libs/scheme/long_test.go", strings.Repeat("// one more line\n", arch.MaxFileLines)},
		{"a line as long as allowed", "libs/scheme/long.go", "var _ = " + strings.Repeat("1 + ", 32) + "1234"},
		{"a long string", "libs/scheme/long.go", "var _ = `" + strings.Repeat("x", 200) + "`"},
		{"a long struct tag", "libs/scheme/long.go", "type t struct { f int `json:\"" + strings.Repeat("x", 200) + "\"` }"},
		{"a long text of several lines", "libs/scheme/long.go", "var _ = `\n" + strings.Repeat("x", 200) + "\n`"},
		{"a long URL", "libs/scheme/long.go", "// https://" + strings.Repeat("x", 200)},
		{"a long line of a test", "libs/scheme/long_test.go", "// " + strings.Repeat("x", 200)},
		{"a function as long as allowed", "libs/scheme/long.go", "func long() {" + strings.Repeat("\n", arch.MaxFunctionLines-1) + "}"},
		{"a long test", "libs/scheme/long_test.go", "func long() {" + strings.Repeat("\n", arch.MaxFunctionLines) + "}"},
		{
			"a test of a generic room names a kind", "services/apiserver/internal/http/rest/scale_test.go",
			`import _ "k8s.io/api/autoscaling/v1"; func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }`,
		},
		{"a room below a generic one", "services/apiserver/internal/registry/allocate/ips.go", `import _ "k8s.io/api/core/v1"`},
		{"Helm installs", "test/e2e/helm_test.go", `import _ "helm.sh/helm/v3/pkg/action"`},
		{"a path with the prefix of a denied one", "libs/bus/conn.go", `import _ "github.com/nats-io/nats.go"`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if found := checkTree(t, c.file, c.source); len(found) != 0 {
				t.Errorf("found %v", found)
			}
		})
	}
}

// checkTree applies the rules to a tree with one file.
func checkTree(t *testing.T, file, source string) []arch.Violation {
	t.Helper()
	pkg := filepath.Base(filepath.Dir(filepath.FromSlash(file)))
	if strings.HasPrefix(file, "cmd/") {
		pkg = "main"
	}
	found, err := arch.Check(writeTree(t, map[string]string{file: fmt.Sprintf("package %s\n\n%s\n", pkg, source)}))
	if err != nil {
		t.Fatal(err)
	}
	return alone(found)
}

// alone drops the violations that a package has when nothing surrounds it: it has neither users nor
// tests. These rules have tests of their own.
func alone(found []arch.Violation) []arch.Violation {
	return slices.DeleteFunc(found, func(v arch.Violation) bool {
		return strings.Contains(v.Why, "belongs to its one user") || strings.Contains(v.Why, "a package tests its own logic")
	})
}

// writeTree writes files, keyed by slash-separated path, to a new folder.
func writeTree(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for file, source := range files {
		name := filepath.Join(root, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}
