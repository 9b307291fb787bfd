package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/test/e2e/plane"
)

// TestKilledInARollout kills the process with SIGKILL in the middle of a rollout. After a restart,
// the plane must reach the desired state.
func TestKilledInARollout(t *testing.T) {
	p := plane.Start(t, plane.Binary(t), "--runtime", "simulated", "--simulated-start-delay", "300ms")
	killedInARollout(t, p, nil)
}

// killedInARollout is the test for any runtime. containers, if not nil, returns the number of
// containers that the runtime itself runs, by pod UID.
func killedInARollout(t *testing.T, p *plane.Plane, containers func(t *testing.T) map[string]int) {
	expect(t, p, "", `created`, "create", "-f", "testdata/nginx.yaml")
	expect(t, p, "", `scaled`, "scale", "deployment/nginx-deployment", "--replicas=4")
	running(t, p, 4)
	before := podsByName(t, p)
	expect(t, p, "", `image updated`, "set", "image", "deployment/nginx-deployment", "nginx=nginx:1.16.1")
	plane.Eventually(t, "the rollout to be under way", func(context.Context) error {
		for name := range podsByName(t, p) {
			if _, old := before[name]; !old {
				return nil
			}
		}
		return errors.New("no new pod yet")
	})
	p.Kill()
	p.Restart(t)

	expect(t, p, "", `successfully rolled out\n$`, "rollout", "status", "deployment/nginx-deployment")
	running(t, p, 4)
	after := podsByName(t, p)
	for name, pod := range after {
		if image := pod.Spec.Containers[0].Image; image != "nginx:1.16.1" {
			t.Errorf("pod %s has image %s", name, image)
		}
		if n := pod.Status.ContainerStatuses[0].RestartCount; n != 0 {
			t.Errorf("pod %s was restarted %d times", name, n)
		}
	}
	if out := strings.TrimSpace(p.Must(t, "", "get", "rs", "-l", "app=nginx", "-o", "jsonpath={.items[*].status.replicas}")); out != "4 0" && out != "0 4" {
		t.Errorf("the ReplicaSets have %s replicas", out)
	}
	if containers == nil {
		return
	}
	plane.Eventually(t, "the runtime to run one container for each pod, and no other", func(context.Context) error {
		count := containers(t)
		for _, pod := range after {
			if count[string(pod.UID)] != 1 {
				return fmt.Errorf("pod %s has %d containers", pod.Name, count[string(pod.UID)])
			}
			delete(count, string(pod.UID))
		}
		if len(count) != 0 {
			return fmt.Errorf("containers of pods that are gone: %v", count)
		}
		return nil
	})
}

func podsByName(t *testing.T, p *plane.Plane) map[string]corev1.Pod {
	t.Helper()
	var list corev1.PodList
	if err := json.Unmarshal([]byte(p.Must(t, "", "get", "po", "-l", "app=nginx", "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	pods := map[string]corev1.Pod{}
	for _, pod := range list.Items {
		pods[pod.Name] = pod
	}
	return pods
}
