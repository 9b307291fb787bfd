package agent_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/informer/listwatch"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/trace"
	"github.com/garboard/garboard/services/nodeagent/internal/agent"
	"github.com/garboard/garboard/services/nodeagent/internal/prober"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
	"github.com/garboard/garboard/services/nodeagent/internal/simulated"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const nodeName = "node-1"

// world is an in-memory API and a machine with a simulated runtime, on which agents run.
type world struct {
	t       *testing.T
	api     *fake.Client
	dir     string
	trace   *trace.Recorder
	metrics *prometheus.Registry // of one agent; discarded when nil
	runtime *runtime.Client
	dial    prober.Dial
	handler chan http.Handler
	level   slog.Level  // of the log
	away    atomic.Bool // whether all calls of the agents fail
	real    bool        // whether the runtime starts containers
	faults  sync.Map    // by name of a call, the error of the simulated runtime
}

func newWorld(t *testing.T, objs ...scheme.Object) *world {
	t.Helper()
	w := &world{
		t: t, dir: t.TempDir(), trace: trace.NewRecorder(1000),
		handler: make(chan http.Handler, 4),
	}
	w.api = fake.New(scheme.New(), append(objs,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: corev1.NamespaceNodeLease}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}},
	)...)
	sim, err := simulated.New(simulated.Config{
		Dir: filepath.Join(w.dir, "sim"), PodCIDR: netip.MustParsePrefix("10.200.0.0/24"), Logger: w.logger(), Fail: w.fault,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- sim.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the simulated runtime: %v", err)
		}
	})
	w.dial = sim.Dial
	w.runtime, err = runtime.Connect(t.Context(), sim.Endpoint(), w.logger())
	if err != nil {
		t.Fatal(err)
	}
	w.runtime.Own(nodeName)
	t.Cleanup(func() {
		if err := w.runtime.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) fault(call string) error {
	fault, _ := w.faults.Load(call)
	err, _ := fault.(error)
	return err
}

func (w *world) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: w.level}))
}

// start runs an agent and returns the function that stops it.
func (w *world) start() (stop func()) {
	w.t.Helper()
	_, stop = w.startWith(func(*agent.Config) {})
	return stop
}

// startWith runs an agent with a changed configuration.
func (w *world) startWith(change func(*agent.Config)) (a *agent.Agent, stop func()) {
	w.t.Helper()
	api := restricted{w.api, w}
	metrics := w.metrics
	if metrics == nil {
		metrics = prometheus.NewRegistry()
	}
	cfg := agent.Config{
		NodeName: nodeName, Client: api, Source: listwatch.New(api, w.logger()), Runtime: w.runtime, Simulated: !w.real, Dial: w.dial,
		Serve: func(ctx context.Context, handler http.Handler) error {
			w.handler <- handler
			<-ctx.Done()
			return nil
		},
		DataDir: w.dir, LogDir: filepath.Join(w.dir, "logs"), MaxPods: 5, NodeIP: "192.0.2.1", ClusterDomain: "cluster.local",
		Logger: w.logger(), Registerer: metrics, Trace: w.trace,
	}
	change(&cfg)
	var err error
	if cfg.RuntimeVersion, err = w.runtime.Version(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	a, err = agent.New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("the agent: %v", err)
		}
	}
	w.t.Cleanup(stop)
	return a, stop
}

// eventually waits until check returns "".
func (w *world) eventually(what string, check func() string) {
	w.t.Helper()
	deadline := time.NewTimer(2 * time.Minute)
	defer deadline.Stop()
	// What takes long is looked for less often: a look for what is left of pods reads the whole machine.
	for pause := 10 * time.Millisecond; ; pause = min(pause*5/4, 100*time.Millisecond) {
		problem := check()
		if problem == "" {
			return
		}
		select {
		case <-time.After(pause):
		case <-deadline.C:
			w.t.Fatalf("%s: %s", what, problem)
		}
	}
}

func (w *world) pods() client.Resource[*corev1.Pod] { return client.Of[*corev1.Pod](w.api) }

func (w *world) get(name string) *corev1.Pod {
	pod, err := w.pods().Get(w.t.Context(), "default", name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return pod
}

// until waits until ok holds for the pod; what describes it.
func (w *world) until(name, what string, ok func(*corev1.Pod) bool) *corev1.Pod {
	w.t.Helper()
	var pod *corev1.Pod
	w.eventually(name+" is "+what, func() string {
		if pod = w.get(name); pod == nil {
			return "there is no such pod"
		}
		if ok(pod) {
			return ""
		}
		return fmt.Sprintf("phase %s, conditions %+v, containers %+v", pod.Status.Phase, pod.Status.Conditions, pod.Status.ContainerStatuses)
	})
	return pod
}

func (w *world) create(pod *corev1.Pod) *corev1.Pod {
	w.t.Helper()
	created, err := w.pods().Create(w.t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return created
}

// eventsOf returns the Events about a pod as "reason: message", in order.
func (w *world) eventsOf(name string) []string {
	list, _, err := client.Of[*corev1.Event](w.api).List(w.t.Context(), "default", metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	slices.SortStableFunc(list, func(a, b *corev1.Event) int { return a.FirstTimestamp.Compare(b.FirstTimestamp.Time) })
	var out []string
	for _, e := range list {
		if e.InvolvedObject.Name == name {
			out = append(out, e.Reason+": "+e.Message)
		}
	}
	return out
}

func (w *world) hasEvent(pod, want string) {
	w.t.Helper()
	w.eventually("event "+want, func() string {
		all := w.eventsOf(pod)
		for _, e := range all {
			if strings.HasPrefix(e, want) {
				return ""
			}
		}
		return "there are " + strings.Join(all, " | ")
	})
}

func (w *world) containers() []runtime.Container {
	w.t.Helper()
	list, err := w.runtime.Containers(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

// containersOf returns the containers of a pod. What is left of others may take its time to go.
func (w *world) containersOf(pod *corev1.Pod) []runtime.Container {
	w.t.Helper()
	return slices.DeleteFunc(w.containers(), func(c runtime.Container) bool { return c.PodUID != string(pod.UID) })
}

func newPod(name string) *corev1.Pod {
	grace := int64(5)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{}},
		Spec: corev1.PodSpec{
			NodeName: nodeName, RestartPolicy: corev1.RestartPolicyAlways, TerminationGracePeriodSeconds: &grace,
			ServiceAccountName: "default", DNSPolicy: corev1.DNSDefault,
			Containers: []corev1.Container{{
				Name: "nginx", Image: "nginx:1.14.2", ImagePullPolicy: corev1.PullIfNotPresent,
				TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			}},
		},
	}
}

func ready(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func TestNodeRegisters(t *testing.T) {
	w := newWorld(t)
	w.start()
	nodes := client.Of[*corev1.Node](w.api)
	w.eventually("the node is ready", func() string {
		node, err := nodes.Get(t.Context(), "", nodeName, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue && c.Reason == "KubeletReady" {
				if node.Status.NodeInfo.ContainerRuntimeVersion != "simulated://0.1.0" || node.Labels["garboard.io/simulated"] != "true" {
					t.Errorf("the node is not marked as simulated: %s, %v", node.Status.NodeInfo.ContainerRuntimeVersion, node.Labels)
				}
				if got := node.Status.Allocatable.Pods().Value(); got != 5 {
					t.Errorf("allocatable pods: %d", got)
				}
				return ""
			}
		}
		return fmt.Sprintf("conditions: %+v", node.Status.Conditions)
	})
}

// TestSimulatedProbes: the simulated runtime answers probes for its pods, as configured.
func TestSimulatedProbes(t *testing.T) {
	w := newWorld(t)
	w.start()
	for name, status := range map[string]string{"fine": "", "broken": "503"} {
		pod := newPod(name)
		if status != "" {
			pod.Annotations["simulated.garboard.io/http-status"] = status
		}
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}
		pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromString("http")}},
			PeriodSeconds: 1, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 1,
		}
		w.create(pod)
	}
	w.until("fine", "ready", ready)
	w.hasEvent("broken", "Unhealthy: Readiness probe failed: HTTP probe failed with statuscode: 503")
	if ready(w.get("broken")) {
		t.Error("a pod with a failing probe is ready")
	}
}

func TestPodRunsAndEnds(t *testing.T) {
	w := newWorld(t)
	w.start()
	w.create(newPod("web"))
	pod := w.until("web", "ready", ready)
	if pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP == "" || pod.Status.HostIP != "192.0.2.1" || pod.Status.StartTime == nil {
		t.Errorf("status: %+v", pod.Status)
	}
	cs := pod.Status.ContainerStatuses[0]
	if !cs.Ready || cs.RestartCount != 0 || !strings.HasPrefix(cs.ContainerID, "simulated://") || cs.State.Running == nil || cs.ImageID == "" {
		t.Errorf("container status: %+v", cs)
	}
	for _, want := range []string{"Pulling: Pulling image \"nginx:1.14.2\"", "Pulled: ", "Created: Container created", "Started: Container started"} {
		w.hasEvent("web", want)
	}

	if got := w.log(<-w.handler, "web", "nginx", &corev1.PodLogOptions{}); !strings.HasPrefix(got, "simulated container nginx") {
		t.Errorf("log: %q", got)
	}

	if err := w.pods().Delete(t.Context(), "default", "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the pod is gone", func() string {
		if p := w.get("web"); p != nil {
			return fmt.Sprintf("%s %+v", p.Status.Phase, p.Status.ContainerStatuses)
		}
		return ""
	})
	w.hasEvent("web", "Killing: Stopping container nginx")
	w.eventually("its containers are removed", func() string {
		if n := len(w.containers()); n > 0 {
			return fmt.Sprintf("%d containers", n)
		}
		return ""
	})
	if len(w.trace.Hops(func(h trace.Hop) bool { return h.Step == trace.Runtime })) == 0 {
		t.Error("no hop of the runtime was recorded")
	}
}

func TestAgentTakesOver(t *testing.T) {
	w := newWorld(t)
	stop := w.start()
	w.create(newPod("stays"))
	w.create(newPod("goes"))
	w.until("stays", "ready", ready)
	gone := w.until("goes", "ready", ready)
	before := w.containers()
	stop()
	w.api.Remove(gone)
	w.start()
	w.eventually("the orphan is removed, nothing else", func() string {
		var names []string
		for _, c := range w.containers() {
			names = append(names, c.PodName)
			if c.PodName == "stays" && !slices.ContainsFunc(before, func(old runtime.Container) bool { return old.ID == c.ID }) {
				t.Fatalf("a second container was created: %+v", c)
			}
		}
		if slices.Equal(names, []string{"stays"}) {
			return ""
		}
		return strings.Join(names, " ")
	})
	if pod := w.get("stays"); !ready(pod) || pod.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("status: %+v", pod.Status)
	}
}

func TestCrashLoop(t *testing.T) {
	w := newWorld(t)
	w.start()
	pod := newPod("crashes")
	pod.Annotations["simulated.garboard.io/exit-after"] = "0s"
	pod.Annotations["simulated.garboard.io/exit-code"] = "3"
	w.create(pod)
	got := w.until("crashes", "backing off", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Waiting != nil &&
			p.Status.ContainerStatuses[0].State.Waiting.Reason == "CrashLoopBackOff"
	})
	cs := got.Status.ContainerStatuses[0]
	// A late reader sees a later wait, which doubles with each restart.
	wait := min(5*time.Second<<cs.RestartCount, 5*time.Minute)
	if cs.RestartCount < 1 || cs.LastTerminationState.Terminated == nil || cs.LastTerminationState.Terminated.ExitCode != 3 ||
		got.Status.Phase != corev1.PodRunning ||
		!strings.HasPrefix(cs.State.Waiting.Message, fmt.Sprintf("back-off %s restarting failed container=nginx pod=crashes_default(", wait)) {
		t.Errorf("status: %+v", got.Status)
	}
	w.hasEvent("crashes", "BackOff: Back-off restarting failed container nginx in pod crashes_default(")
}

func TestPodSucceeds(t *testing.T) {
	w := newWorld(t)
	w.start()
	pod := newPod("job")
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.InitContainers = []corev1.Container{{Name: "first", Image: "busybox"}}
	pod.Annotations["simulated.garboard.io/exit-after.nginx"] = "0s"
	w.create(pod)
	got := w.until("job", "Succeeded", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded })
	if term := got.Status.ContainerStatuses[0].State.Terminated; term == nil || term.Reason != "Completed" {
		t.Errorf("container status: %+v", got.Status.ContainerStatuses)
	}
	if !got.Status.InitContainerStatuses[0].Ready {
		t.Errorf("init container status: %+v", got.Status.InitContainerStatuses)
	}
}

func TestRejectedAndRefused(t *testing.T) {
	w := newWorld(t)
	w.start()
	wrong := newPod("elsewhere")
	wrong.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	w.create(wrong)
	got := w.until("elsewhere", "Failed", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	if got.Status.Reason != "NodeAffinity" || got.Status.Message != "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector" {
		t.Errorf("status: %+v", got.Status)
	}
	w.hasEvent("elsewhere", "NodeAffinity: Predicate NodeAffinity failed")

	unsupported := newPod("unsupported")
	unsupported.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/p"},
	}}}
	w.create(unsupported)
	w.until("unsupported", "waiting", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Waiting != nil &&
			p.Status.ContainerStatuses[0].State.Waiting.Reason == "CreateContainerConfigError"
	})
	w.hasEvent("unsupported", "UnsupportedField: this node agent does not support: spec.volumes[0].nfs")
}

func TestConfiguration(t *testing.T) {
	w := newWorld(t)
	w.start()
	pod := newPod("cfg")
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "MODE", ValueFrom: &corev1.EnvVarSource{
		ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}, Key: "mode"},
	}}}
	w.create(pod)
	got := w.until("cfg", "waiting for its ConfigMap", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Waiting != nil &&
			p.Status.ContainerStatuses[0].State.Waiting.Reason == "CreateContainerConfigError"
	})
	if message := got.Status.ContainerStatuses[0].State.Waiting.Message; message != `configmap "settings" not found` {
		t.Errorf("message: %q", message)
	}
	w.hasEvent("cfg", `Failed: Error: configmap "settings" not found`)
	configMaps := client.Of[*corev1.ConfigMap](w.api)
	if _, err := configMaps.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings"}, Data: map[string]string{"mode": "fast"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.until("cfg", "ready", ready)
}
