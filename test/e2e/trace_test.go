package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/garboard/garboard/libs/informer/watcher"
	"github.com/garboard/garboard/test/e2e/plane"
)

// TestTrace asks for the hops of a rollout: those of each service must be there, after the hops
// that caused them.
func TestTrace(t *testing.T) {
	p := plane.Start(t, plane.Binary(t), "--runtime", "simulated")
	expect(t, p, "", `created`, "create", "-f", "testdata/nginx.yaml")
	expect(t, p, "", `successfully rolled out`, "rollout", "status", "deployment/nginx-deployment")
	hops := []string{
		`request +\d+ +apiserver +deployments/nginx-deployment +create by kubernetes-admin`,
		`commit +\d+ +apiserver +deployments/nginx-deployment`,
		`publish +\d+ +apiserver +deployments/nginx-deployment`,
		`informer +\d+ +controllers +deployments/nginx-deployment`,
		`queue +deployment-controller +deployments/nginx-deployment`,
		`reconcile +deployment-controller +deployments/nginx-deployment`,
		`informer +\d+ +controllers +replicasets/nginx-deployment-`,
		`informer +\d+ +scheduler +pods/nginx-deployment-`,
		`bind +scheduler +pods/nginx-deployment-\S+ +node-1`,
		`informer +\d+ +nodeagent/node-1 +pods/nginx-deployment-`,
		`cri +nodeagent/node-1 +pods/nginx-deployment-\S+ +RunPodSandbox`,
		`cri +nodeagent/node-1 +pods/nginx-deployment-\S+ +StartContainer nginx`,
		`status +\d+ +nodeagent/node-1 +pods/nginx-deployment-\S+ +Running 1/1 ready`,
	}
	plane.Eventually(t, "all hops", func(context.Context) error {
		res := p.Garboard(t, "trace", "deployment", "nginx-deployment")
		if res.Code != 0 {
			return errors.New(res.Stderr)
		}
		for _, hop := range hops {
			if !regexp.MustCompile(`\n\+\S+ +(\S+ +)?` + hop).MatchString(res.Stdout) {
				return fmt.Errorf("no %s in\n%s", hop, res.Stdout)
			}
		}
		return nil
	})
	out := p.Garboard(t, "trace", "deployment", "nginx-deployment").Stdout
	// The scheduler may learn that it has bound the pod only when the container already runs.
	bound := regexp.MustCompile(`\n\+(\S+) +(\S+) +bind `).FindStringSubmatch(out)
	started := regexp.MustCompile(`\n\+(\S+) .* StartContainer `).FindStringSubmatch(out)
	if bound == nil || started == nil {
		t.Fatalf("no binding or no start in\n%s", out)
	}
	if span(t, started[1]) < span(t, bound[1])-span(t, bound[2]) {
		t.Errorf("a container started before the binding of its pod began:\n%s", out)
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"trace", "deployment", "none"}, `deployments.apps "none" not found`},
		{[]string{"trace", "pod", "none"}, "garboard trace deployment NAME"},
	} {
		if res := p.Garboard(t, c.args...); res.Code != 1 || !strings.Contains(res.Stderr, c.says) {
			t.Errorf("%v: exit code %d, %s", c.args, res.Code, res.Stderr)
		}
	}
}

// span parses a duration.
func span(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestWatchers checks that each service's informers are listed, synced and not behind.
func TestWatchers(t *testing.T) {
	p := plane.Start(t, plane.Binary(t), "--runtime", "simulated")
	expect(t, p, "", `created`, "create", "-f", "testdata/nginx.yaml")
	expect(t, p, "", `successfully rolled out`, "rollout", "status", "deployment/nginx-deployment")
	plane.Eventually(t, "watchers that are not behind", func(context.Context) error {
		out := p.Must(t, "", "get", "--raw", watcher.Path)
		var rows []watcher.Status
		if err := json.Unmarshal([]byte(out), &rows); err != nil {
			return fmt.Errorf("%w in\n%s", err, out)
		}
		current := map[string]bool{}
		for _, w := range rows {
			current[w.Service+" "+w.Resource] = w.Synced && w.LagRevisions == 0 && len(w.Handlers) > 0
		}
		for _, want := range []string{"controllers deployments", "scheduler pods", "nodeagent/node-1 pods"} {
			if !current[want] {
				return fmt.Errorf("%s is not there, or behind, in\n%s", want, out)
			}
		}
		return nil
	})
}

// TestVersion checks that the built-in kubectl reports its release, and that the server has the
// same one.
func TestVersion(t *testing.T) {
	p := plane.Start(t, plane.Binary(t), "--runtime", "simulated", "--nodes", "0")
	out := p.Must(t, "", "version")
	server := regexp.MustCompile(`Server Version: (v1\.37\.\d+)`).FindStringSubmatch(out)
	if server == nil {
		t.Fatalf("kubectl version printed\n%s", out)
	}
	if client := regexp.MustCompile(`Client Version: (v1\.37\.\d+)`).FindStringSubmatch(out); client == nil || client[1] != server[1] {
		t.Errorf("client and server differ:\n%s", out)
	}
}
