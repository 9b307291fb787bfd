//go:build containers

package e2e_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/garboard/garboard/test/containers/harness"
	"github.com/garboard/garboard/test/e2e/plane"
)

// TestScenarioWithContainers runs the scenario on a real containerd, and sends an HTTP request to
// the address of a pod.
func TestScenarioWithContainers(t *testing.T) {
	containers := harness.Start(t)
	p := plane.Start(t, plane.Binary(t), "--runtime", "containerd", "--containerd", containers.Endpoint())
	t.Run("answers on the pod's address", func(t *testing.T) { answers(t, p, containers) })
	t.Run("scenario", func(t *testing.T) { scenario(t, p) })
	noneLeft(t, containers)
}

// TestKilledInARolloutWithContainers kills the plane, but not the containers.
func TestKilledInARolloutWithContainers(t *testing.T) {
	containers := harness.Start(t)
	p := plane.Start(t, plane.Binary(t), "--runtime", "containerd", "--containerd", containers.Endpoint())
	killedInARollout(t, p, func(t *testing.T) map[string]int {
		count, err := containers.Running(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return count
	})
	expect(t, p, "", `deleted`, "delete", "deployment", "nginx-deployment", "--wait")
	noneLeft(t, containers)
}

func answers(t *testing.T, p *plane.Plane, containers *harness.Containers) {
	expect(t, p, "", `^deployment\.apps/nginx-deployment created\n$`, "create", "-f", "testdata/nginx.yaml")
	running(t, p, 1)
	address := strings.TrimSpace(p.Must(t, "", "get", "po", "-l", "app=nginx", "-o", "jsonpath={.items[0].status.podIP}"))
	var body string
	plane.Eventually(t, "the pod to answer", func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/", nil)
		if err != nil {
			return err
		}
		transport := &http.Transport{DisableKeepAlives: true}
		res, err := (&http.Client{Transport: transport}).Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = res.Body.Close() }()
		data, err := io.ReadAll(res.Body)
		body = string(data)
		return err
	})
	if !strings.Contains(body, "Welcome to nginx!") {
		t.Errorf("the pod answered %q", body)
	}
	plane.Eventually(t, "the request to be logged", func(context.Context) error {
		if log := p.Must(t, "", "logs", "deployment/nginx-deployment"); !strings.Contains(log, `"GET / HTTP/1.1" 200`) {
			return fmt.Errorf("the log is %q", log)
		}
		return nil
	})
	if count, err := containers.Running(t.Context()); err != nil || len(count) != 1 {
		t.Errorf("containerd runs %v, %v", count, err)
	}
	expect(t, p, "", `deleted`, "delete", "deployment", "nginx-deployment", "--wait")
	plane.Eventually(t, "the pod to go", func(context.Context) error {
		if left := p.Must(t, "", "get", "po", "-l", "app=nginx", "-o", "name"); left != "" {
			return fmt.Errorf("still there: %s", left)
		}
		return nil
	})
}

func noneLeft(t *testing.T, containers *harness.Containers) {
	t.Helper()
	plane.Eventually(t, "containerd to run nothing any more", func(ctx context.Context) error {
		count, err := containers.Running(ctx)
		if err == nil && len(count) > 0 {
			return fmt.Errorf("containerd runs %v", count)
		}
		return err
	})
}
