package agent_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
	"github.com/garboard/garboard/test/containers/faultpoint"
	"github.com/garboard/garboard/test/containers/harness"
)

// Environment variables that make the tests of pod lifecycles longer or repeat them.
const (
	// faultsVariable is the number of faults to try, "all" for all.
	faultsVariable = "GARBOARD_POD_FAULTS"
	// podsVariable is the number of pods that come and go.
	podsVariable = "GARBOARD_PODS"
	// seedVariable is the seed of the random numbers.
	seedVariable = "GARBOARD_SEED"
)

// fault is an event at a point of a pod's lifecycle.
type fault string

const (
	deletes  fault = "the pod is deleted"
	forces   fault = "the pod is deleted by force"
	fails    fault = "the pod is failed by another"
	kills    fault = "the agent is killed"
	orphans  fault = "the agent is killed and the pod deleted meanwhile"
	restarts fault = "the runtime is killed"
)

// scenario is one fault before, during or after one call.
type scenario struct {
	point faultpoint.Point
	side  faultpoint.Side
	fault fault
}

func (s scenario) String() string { return fmt.Sprintf("%s/%s/%s", s.point, s.side, s.fault) }

// scenariosOf returns all faults at the points of a recorded run.
func scenariosOf(points []faultpoint.Point) []scenario {
	var all []scenario
	for _, point := range points {
		for _, fault := range []fault{deletes, forces, fails, kills, orphans, restarts} {
			sides := []faultpoint.Side{faultpoint.Before, faultpoint.After, faultpoint.Late, faultpoint.Later}
			switch {
			case point.Reads():
				sides = sides[:1]
			case fault == restarts:
				sides = append(sides[:2], faultpoint.During)
			}
			for _, side := range sides {
				all = append(all, scenario{point, side, fault})
			}
		}
	}
	return all
}

// faultyPod returns a pod that causes many calls: an init container, two others, volumes, a hook.
func faultyPod(name string) *corev1.Pod {
	pod := newPod(name)
	grace := int64(4)
	pod.Spec.TerminationGracePeriodSeconds = &grace
	site := corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "site"}}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
		{Name: "site", VolumeSource: corev1.VolumeSource{ConfigMap: &site}},
	}
	mounts := []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}, {Name: "site", MountPath: "/site", ReadOnly: true}}
	shell := func(name, script string) corev1.Container {
		return corev1.Container{
			Name: name, Image: "busybox:1.36", ImagePullPolicy: corev1.PullIfNotPresent, VolumeMounts: mounts, Command: []string{"sh", "-c", script},
			TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		}
	}
	pod.Spec.InitContainers = []corev1.Container{shell("prepare", "cat /site/mode > /scratch/mode")}
	pod.Spec.Containers[0].VolumeMounts = mounts
	pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
		Exec: &corev1.ExecAction{Command: []string{"/usr/sbin/nginx", "-v"}},
	}}
	pod.Spec.Containers = append(pod.Spec.Containers, shell("beside", "trap 'exit 0' TERM; sleep 10000 & wait"))
	return pod
}

// TestFaultPoints stops a pod's lifecycle at each call to the runtime, on either runtime, and
// injects a fault there. Whatever the fault, the pod runs or terminates, and nothing is left of it.
func TestFaultPoints(t *testing.T) {
	t.Run("simulated", func(t *testing.T) {
		machines := slices.Repeat([]newMachine{func(t *testing.T) machine { return newSimulatedMachine(t) }}, 8)
		testFaults(t, 60, machines)
	})
	t.Run("containerd", func(t *testing.T) {
		machines := make([]newMachine, 1)
		if os.Getenv(faultsVariable) != "" {
			machines = make([]newMachine, 3)
		}
		for i := range machines {
			containers := harness.Start(t)
			machines[i] = func(*testing.T) machine { return containerdMachine{containers} }
		}
		testFaults(t, 12, machines)
	})
}

// newMachine returns the machine of a test.
type newMachine func(t *testing.T) machine

// testFaults tries a number of faults, on all machines in parallel.
func testFaults(t *testing.T, count int, machines []newMachine) {
	all := scenariosOf(recordPoints(t, machines[0]))
	seed := seedOf(t)
	chance := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a test repeats what it did
	switch text := os.Getenv(faultsVariable); text {
	case "":
	case "all":
		count = len(all)
	default:
		count = number(t, faultsVariable)
	}
	count = min(count, len(all))
	chance.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	t.Logf("%s=%d: %d of %d faults", seedVariable, seed, count, len(all))
	next := make(chan scenario)
	var wg sync.WaitGroup
	for _, on := range machines {
		wg.Go(func() {
			for s := range next {
				t.Run(s.String(), func(t *testing.T) { testFault(t, on(t), s) })
			}
		})
	}
	began := time.Now()
	for i, s := range all[:count] {
		if i%20 == 0 {
			t.Logf("%v: %d of %d faults", time.Since(began).Round(time.Second), i, count)
		}
		next <- s
	}
	close(next)
	wg.Wait()
}

// recordPoints returns the calls of a lifecycle without a fault.
func recordPoints(t *testing.T, on newMachine) []faultpoint.Point {
	t.Helper()
	var points []faultpoint.Point
	t.Run("recorded", func(t *testing.T) {
		w := newProxied(t, on(t))
		w.forgetImages()
		w.begin()
		w.create(faultyPod("pod"))
		w.until("pod", "ready", ready)
		w.remove("pod")
		w.eventually("nothing is left", w.leftovers)
		points = w.proxy.Points()
		for _, point := range points {
			t.Log(point)
		}
	})
	return points
}

// testFault injects one fault.
func testFault(t *testing.T, m machine, s scenario) {
	w := newProxied(t, m)
	w.forgetImages()
	began := time.Now()
	w.begin()
	trap := w.proxy.Set(s.point, s.side)
	w.create(faultyPod("pod"))
	deleted := false
	reached := w.untilReached(trap, &deleted)
	if !reached && !s.point.Reads() {
		t.Error("the point was not reached")
	}
	if reached {
		w.happen(s, trap, &deleted)
	}
	if !deleted {
		if !reached || s.fault != fails {
			w.until("pod", "ready", ready)
		}
		w.remove("pod")
	}
	w.eventually("the pod is gone", func() string {
		if pod := w.get("pod"); pod != nil {
			return fmt.Sprintf("%s %+v", pod.Status.Phase, pod.Status.ContainerStatuses)
		}
		return ""
	})
	w.eventually("nothing is left", w.leftovers)
	if took := time.Since(began); took > 15*time.Second {
		t.Logf("it took %v", took)
	}
}

// untilReached waits until the trap holds a call, and deletes the pod once it runs. It reports
// false if the pod is gone first.
func (w *proxied) untilReached(trap *faultpoint.Trap, deleted *bool) bool {
	w.t.Helper()
	reached := false
	w.eventually("the point is reached", func() string {
		select {
		case <-trap.Reached():
			reached = true
			return ""
		default:
		}
		pod := w.get("pod")
		switch {
		case pod == nil && *deleted && w.leftovers() == "":
			return ""
		case pod != nil && !*deleted && ready(pod):
			*deleted = true
			w.delete("pod", nil)
		}
		return fmt.Sprintf("the points so far are %q", w.proxy.Points())
	})
	return reached
}

// happen injects the fault while the call is held.
func (w *proxied) happen(s scenario, trap *faultpoint.Trap, deleted *bool) {
	w.t.Helper()
	switch s.fault {
	case deletes:
		// A pod that is already being deleted gets a short grace period.
		var grace *int64
		if *deleted {
			grace = new(int64(1))
		}
		*deleted = true
		w.delete("pod", grace)
		trap.Release()
	case forces:
		*deleted = true
		w.delete("pod", new(int64))
		trap.Release()
	case fails:
		w.fail(trap, *deleted)
	case kills:
		w.kill()
		w.begin()
		trap.Release()
	case orphans:
		w.kill()
		*deleted = true
		w.delete("pod", new(int64))
		w.begin()
		trap.Release()
	case restarts:
		if s.side == faultpoint.During {
			trap.Release()
			// Somewhere in the middle of the runtime's work.
			<-time.After(rand.N(300 * time.Millisecond)) //nolint:gosec // it is no secret
			w.machine.restart(w.t)
			w.proxy.Reconnect()
			return
		}
		w.machine.restart(w.t)
		w.proxy.Reconnect()
		trap.Lose()
	}
}

// fail marks the pod as failed in its status, as an eviction does. Then nothing runs, though the
// pod stays in the API.
func (w *proxied) fail(trap *faultpoint.Trap, deleted bool) {
	w.t.Helper()
	failed := []byte(`{"status":{"phase":"Failed","reason":"Evicted"}}`)
	_, err := w.pods().Patch(w.t.Context(), "default", "pod", types.MergePatchType, failed, metav1.PatchOptions{}, "status")
	if err != nil && w.get("pod") != nil {
		w.t.Fatal(err)
	}
	trap.Release()
	<-trap.Done()
	if deleted {
		return
	}
	quiet := 0
	w.eventually("nothing runs", func() string {
		if what := w.running(); what != "" {
			quiet = 0
			return what
		}
		// By then the agent has listed the runtime again.
		if quiet++; quiet < 200 {
			return "nothing runs just now"
		}
		return ""
	})
}

// running returns what runs or could be started; "" if nothing does.
func (w *proxied) running() string {
	sandboxes, err := w.direct.Sandboxes(w.t.Context())
	if err != nil {
		return err.Error()
	}
	containers, err := w.direct.Containers(w.t.Context())
	if err != nil {
		return err.Error()
	}
	for _, s := range sandboxes {
		if s.Ready {
			return "the sandbox " + s.ID
		}
	}
	for _, c := range containers {
		if c.State != runtime.Exited {
			return fmt.Sprintf("the container %s is in state %s", c.Name, c.State)
		}
	}
	return ""
}

// delete deletes a pod that may already be gone.
func (w *proxied) delete(name string, grace *int64) {
	w.t.Helper()
	err := w.pods().Delete(w.t.Context(), "default", name, metav1.DeleteOptions{GracePeriodSeconds: grace})
	if err != nil && w.get(name) != nil {
		w.t.Fatal(err)
	}
}

// forgetImages makes the agent pull the pod's images again.
func (w *proxied) forgetImages() {
	w.t.Helper()
	list, err := w.direct.ListImages(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, image := range list {
		for _, tag := range image.Tags {
			if tag == harness.PauseImage {
				continue
			}
			if err := w.direct.RemoveImage(w.t.Context(), tag); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// seedOf returns the seed of a random test.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	seed := rand.Uint64() //nolint:gosec // it is no secret
	if os.Getenv(seedVariable) != "" {
		var err error
		if seed, err = strconv.ParseUint(os.Getenv(seedVariable), 10, 64); err != nil {
			t.Fatalf("%s: %v", seedVariable, err)
		}
	}
	return seed
}

func number(t *testing.T, variable string) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv(variable))
	if err != nil || n < 1 {
		t.Fatalf("%s is %q, not a number of at least 1", variable, os.Getenv(variable))
	}
	return n
}
