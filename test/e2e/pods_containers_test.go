//go:build containers

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/test/containers/harness"
	"github.com/garboard/garboard/test/e2e/plane"
)

// podCase is one feature of pods: the objects to create and the expected result.
type podCase struct {
	name string
	// manifest is YAML. @HOST@ in it is a folder of the machine that the test shares with the
	// containers.
	manifest string
	check    func(t *testing.T, w *podWorld)
}

// podWorld is a plane with real containers.
type podWorld struct {
	*plane.Plane
	containers *harness.Containers
	// host is the folder that manifests call @HOST@.
	host string
}

// TestPodsWithContainers checks the features of pods on a real containerd, as kubectl shows them.
// It creates all pods at once and then checks one after another, since most of the time is spent
// waiting.
func TestPodsWithContainers(t *testing.T) {
	containers := harness.Start(t)
	p := plane.Start(t, plane.Binary(t), "--runtime", "containerd", "--containerd", containers.Endpoint())
	w := &podWorld{Plane: p, containers: containers, host: t.TempDir()}
	if err := os.Chmod(w.host, 0o755); err != nil {
		t.Fatal(err)
	}
	plane.Eventually(t, "the default ServiceAccount", func(context.Context) error {
		if res := p.Kubectl(t, "", "get", "serviceaccount", "default"); res.Code != 0 {
			return fmt.Errorf("%s", res.Stderr)
		}
		return nil
	})
	cases := slices.Concat(configurationCases, volumeCases, orderCases, endCases, probeCases, imageCases, logCases)
	var manifests []string
	for _, c := range cases {
		if c.manifest != "" {
			manifests = append(manifests, strings.ReplaceAll(c.manifest, "@HOST@", w.host))
		}
	}
	prepareProbes(t, w)
	w.Must(t, strings.Join(manifests, "\n---\n"), "create", "-f", "-")
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.check(t, w) })
	}
	t.Run("restarts", func(t *testing.T) { restarts(t, w) })
	w.Must(t, "", "delete", "pods", "--all", "--grace-period=1", "--wait=false")
	noneLeft(t, containers)
	plane.Eventually(t, "the pods to go", func(context.Context) error {
		if left := w.Must(t, "", "get", "po", "-o", "name"); left != "" {
			return fmt.Errorf("still there: %s", left)
		}
		return nil
	})
}

// pod returns the named pod, or nil if it does not exist.
func (w *podWorld) pod(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	res := w.Kubectl(t, "", "get", "pod", name, "--ignore-not-found", "-o", "json")
	if res.Code != 0 {
		t.Fatalf("getting pod %s: %s", name, res.Stderr)
	}
	if res.Stdout == "" {
		return nil
	}
	var pod corev1.Pod
	if err := json.Unmarshal([]byte(res.Stdout), &pod); err != nil {
		t.Fatal(err)
	}
	return &pod
}

// until waits until is returns true for the pod, and returns the pod.
func (w *podWorld) until(t *testing.T, name, what string, is func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	var found *corev1.Pod
	plane.Eventually(t, name+" to be "+what, func(context.Context) error {
		pod := w.pod(t, name)
		if pod == nil {
			return fmt.Errorf("pod %s does not exist", name)
		}
		if !is(pod) {
			status, err := json.Marshal(pod.Status)
			if err != nil {
				return err
			}
			return fmt.Errorf("its status is %s", status)
		}
		found = pod
		return nil
	})
	return found
}

// phase waits until the pod has the phase.
func (w *podWorld) phase(t *testing.T, name string, phase corev1.PodPhase) *corev1.Pod {
	t.Helper()
	return w.until(t, name, string(phase), func(pod *corev1.Pod) bool { return pod.Status.Phase == phase })
}

// ready waits until all containers of the pod are ready.
func (w *podWorld) ready(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	return w.until(t, name, "ready", isReady)
}

func isReady(pod *corev1.Pod) bool {
	return condition(pod, corev1.PodReady).Status == corev1.ConditionTrue
}

// condition returns the pod's condition of a type, or an empty one.
func condition(pod *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.PodCondition{}
}

// container returns the status of a container of the pod, init containers included, or an empty
// one.
func container(pod *corev1.Pod, name string) corev1.ContainerStatus {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if c.Name == name {
			return c
		}
	}
	return corev1.ContainerStatus{}
}

// ended returns how a container terminated, or an empty state if it has not.
func ended(pod *corev1.Pod, name string) corev1.ContainerStateTerminated {
	if state := container(pod, name).State.Terminated; state != nil {
		return *state
	}
	return corev1.ContainerStateTerminated{}
}

// lastEnd returns how a container terminated before its latest restart, or an empty state.
func lastEnd(pod *corev1.Pod, name string) corev1.ContainerStateTerminated {
	if state := container(pod, name).LastTerminationState.Terminated; state != nil {
		return *state
	}
	return corev1.ContainerStateTerminated{}
}

// row waits until the row of the pod in `kubectl get po` matches pattern after its name.
func (w *podWorld) row(t *testing.T, name, pattern string) {
	t.Helper()
	want := regexp.MustCompile("^" + name + " +" + pattern + ` +\d+\S*\n$`)
	plane.Eventually(t, "kubectl to show "+name+" as "+pattern, func(context.Context) error {
		if row := w.Must(t, "", "get", "po", name, "--no-headers"); !want.MatchString(row) {
			return fmt.Errorf("it shows %q", row)
		}
		return nil
	})
}

// event waits for an Event about the pod whose "TYPE REASON MESSAGE" matches the pattern.
func (w *podWorld) event(t *testing.T, name, pattern string) {
	t.Helper()
	want := regexp.MustCompile(pattern)
	plane.Eventually(t, "an Event about "+name+" like "+pattern, func(context.Context) error {
		out := w.Must(t, "", "get", "events", "--field-selector", "involvedObject.kind=Pod,involvedObject.name="+name,
			"-o", `jsonpath={range .items[*]}{.type} {.reason} {.message}{"\n"}{end}`)
		for line := range strings.Lines(out) {
			if want.MatchString(line) {
				return nil
			}
		}
		return fmt.Errorf("the Events are\n%s", out)
	})
}

// log waits until the log of a container matches the pattern.
func (w *podWorld) log(t *testing.T, pattern string, args ...string) {
	t.Helper()
	want := regexp.MustCompile(pattern)
	plane.Eventually(t, "the log "+strings.Join(args, " "), func(context.Context) error {
		res := w.Kubectl(t, "", append([]string{"logs"}, args...)...)
		if res.Code != 0 || !want.MatchString(res.Stdout) {
			return fmt.Errorf("got %q, %s, want a match of %q", res.Stdout, res.Stderr, pattern)
		}
		return nil
	})
}
