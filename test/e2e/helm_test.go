package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/cli"
	"helm.sh/helm/v3/pkg/cli/values"
	"helm.sh/helm/v3/pkg/getter"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/test/e2e/plane"
)

// TestHelm runs an unchanged Helm 3 through the life of a chart with sixteen kinds.
func TestHelm(t *testing.T) {
	for _, name := range []string{"HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME", "KUBECACHEDIR"} {
		t.Setenv(name, t.TempDir())
	}
	p := plane.Start(t, plane.Binary(t), "--runtime", "simulated")
	for _, part := range []struct {
		name string
		run  func(t *testing.T, p *plane.Plane)
	}{
		{"a release's life", helmLife},
		{"three-way merge", helmMerge},
		{"failing upgrades", helmFailures},
		{"replacing", helmReplaces},
		{"ownership", helmOwnership},
		{"bad charts", helmBadCharts},
		{"few rights", helmRestricted},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel() // Each part has its own namespaces, and Helm polls every two seconds.
			part.run(t, p)
		})
	}
}

// helm is Helm, set up as its command line does, for one namespace.
type helm struct {
	settings *cli.EnvSettings
	config   *action.Configuration
	hooks    bytes.Buffer // what the hooks' pods wrote

	mu       sync.Mutex
	warnings []string
}

// newHelm returns Helm for the namespace, with the kubeconfig of p.
func newHelm(t *testing.T, p *plane.Plane, namespace string) *helm {
	t.Helper()
	h := &helm{settings: cli.New(), config: &action.Configuration{}}
	h.settings.KubeConfig = p.Kubeconfig()
	h.settings.SetNamespace(namespace)
	flags, ok := h.settings.RESTClientGetter().(*genericclioptions.ConfigFlags)
	if !ok {
		t.Fatalf("Helm's clients come from a %T", h.settings.RESTClientGetter())
	}
	wrap := flags.WrapConfigFn
	flags.WrapConfigFn = func(config *rest.Config) *rest.Config {
		config = wrap(config)
		config.WarningHandler = h
		return config
	}
	if err := h.config.Init(flags, namespace, "secret", t.Logf); err != nil {
		t.Fatal(err)
	}
	h.config.SetHookOutputFunc(func(_, _, _ string) io.Writer { return &h.hooks })
	return h
}

// HandleWarningHeader records the apiserver's warnings.
func (h *helm) HandleWarningHeader(_ int, _, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.warnings = append(h.warnings, text)
}

func (h *helm) warned(pattern string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.warnings, regexp.MustCompile(pattern).MatchString)
}

// values returns what --set would set.
func (h *helm) values(t *testing.T, set ...string) map[string]any {
	t.Helper()
	given := values.Options{Values: set}
	merged, err := given.MergeValues(getter.Providers{})
	if err != nil {
		t.Fatal(err)
	}
	return merged
}

// shop loads the chart. Each use needs its own copy, since Helm modifies it.
func shop(t *testing.T) *chart.Chart {
	t.Helper()
	loaded, err := loader.Load("testdata/charts/shop")
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// install is `helm install --create-namespace`; change sets further flags.
func (h *helm) install(t *testing.T, name string, change func(*action.Install), set ...string) (*release.Release, error) {
	t.Helper()
	return h.installChart(t, shop(t), name, change, set...)
}

func (h *helm) installChart(t *testing.T, from *chart.Chart, name string, change func(*action.Install), set ...string) (*release.Release, error) {
	t.Helper()
	install := action.NewInstall(h.config)
	install.ReleaseName, install.Namespace, install.CreateNamespace, install.Timeout = name, h.settings.Namespace(), true, plane.Patience
	if change != nil {
		change(install)
	}
	return install.RunWithContext(t.Context(), from, h.values(t, set...))
}

// upgrade is `helm upgrade --reset-values`; change sets further flags.
func (h *helm) upgrade(t *testing.T, name string, change func(*action.Upgrade), set ...string) (*release.Release, error) {
	t.Helper()
	upgrade := action.NewUpgrade(h.config)
	upgrade.Namespace, upgrade.Timeout, upgrade.ResetValues = h.settings.Namespace(), plane.Patience, true
	if change != nil {
		change(upgrade)
	}
	return upgrade.RunWithContext(t.Context(), name, shop(t), h.values(t, set...))
}

// history returns a line per revision of the release, oldest first.
func (h *helm) history(t *testing.T, name string) []string {
	t.Helper()
	releases, err := action.NewHistory(h.config).Run(name)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, each := range releases {
		lines = append(lines, fmt.Sprintf("%d %s: %s", each.Version, each.Info.Status, each.Info.Description))
	}
	slices.Sort(lines)
	return lines
}

// wantHistory fails the test unless the release's revisions match the patterns.
func (h *helm) wantHistory(t *testing.T, name string, patterns ...string) {
	t.Helper()
	lines := h.history(t, name)
	matches := len(lines) == len(patterns)
	for i := range min(len(lines), len(patterns)) {
		matches = matches && regexp.MustCompile(`(?s)^`+patterns[i]+`$`).MatchString(lines[i])
	}
	if !matches {
		t.Errorf("the history of %s is\n%s\nwant\n%s", name, strings.Join(lines, "\n"), strings.Join(patterns, "\n"))
	}
}

// must fails the test at once if err is not nil.
func must[T any](t *testing.T) func(got T, err error) T {
	t.Helper()
	return func(got T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
}

// wantError fails the test unless the text of err, which may have several lines, matches pattern.
func wantError(t *testing.T, err error, pattern string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one that matches %s", pattern)
		return
	}
	if !regexp.MustCompile(`(?s)` + pattern).MatchString(strings.TrimSpace(err.Error())) {
		t.Errorf("the error is\n%v\nwant one that matches %s", err, pattern)
	}
}

// field reads one field of an object with kubectl.
func field(t *testing.T, p *plane.Plane, namespace, object, path string) string {
	t.Helper()
	return p.Must(t, "", "get", object, "-n", namespace, "-o", "jsonpath={"+path+"}")
}

// available fails the test unless at least n pods of the shop are ready, which Helm has awaited
// through their ReplicaSet. It then waits until their Deployment reports n as well.
func available(t *testing.T, p *plane.Plane, namespace string, n int) {
	t.Helper()
	pods := p.Must(t, "", "get", "pods", "-n", namespace, "--no-headers")
	if ready := len(regexp.MustCompile(`(?m)^shop-front-\S+ +1/1 +Running `).FindAllString(pods, -1)); ready < n {
		t.Errorf("%d pods are ready, want %d:\n%s", ready, n, pods)
	}
	expectSoon(t, p, fmt.Sprintf("^%d$", n), "get", "deployment", "shop-front", "-n", namespace, "-o", "jsonpath={.status.availableReplicas}")
}

// gone waits until kubectl no longer finds the objects.
func gone(t *testing.T, p *plane.Plane, namespace string, objects ...string) {
	t.Helper()
	for _, object := range objects {
		plane.Eventually(t, object+" to be gone", func(context.Context) error {
			res := p.Kubectl(t, "", "get", object, "-n", namespace, "-o", "name")
			if res.Code == 0 || !strings.Contains(res.Stderr, "(NotFound)") {
				return errors.New(res.Stdout + res.Stderr)
			}
			return nil
		})
	}
}
