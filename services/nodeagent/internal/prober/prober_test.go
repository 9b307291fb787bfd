package prober_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
	"github.com/garboard/garboard/services/nodeagent/internal/prober"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is one pod with one container, and the results of its exec probes.
type world struct {
	mu     sync.Mutex
	exit   map[string]int32
	err    error
	runs   map[string]int
	state  *podstate.Pod
	events []string

	metrics *prometheus.Registry
}

func (w *world) ExecSync(_ context.Context, _ string, command []string, _ time.Duration) ([]byte, []byte, int32, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs[command[0]]++
	return []byte("said " + command[0]), nil, w.exit[command[0]], w.err
}

func (w *world) set(command string, exit int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.exit[command] = exit
}

func (w *world) ran(command string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.runs[command]
}

func (w *world) container(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.state = &podstate.Pod{UID: "u",
		Sandboxes:  []runtime.Sandbox{{ID: "s", Ready: true, IPs: []string{"127.0.0.1"}}},
		Containers: []runtime.Container{{ID: id, Name: "c", State: runtime.Running, StartedAt: time.Now()}},
	}
}

func (w *world) said() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.events...)
}

func exec(command string, change func(*corev1.Probe)) *corev1.Probe {
	p := &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{command}}},
		PeriodSeconds: 10, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3,
	}
	if change != nil {
		change(p)
	}
	return p
}

func pod(c corev1.Container) *corev1.Pod {
	c.Name = "c"
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", Name: "web", Namespace: "default"}, Spec: corev1.PodSpec{Containers: []corev1.Container{c}}}
}

// start runs a prober whose changes are read, and returns the function that stops it.
func start(t *testing.T, w *world) (p *prober.Prober, stop func()) {
	w.exit, w.runs = map[string]int32{}, map[string]int{}
	w.container("one")
	w.metrics = prometheus.NewRegistry()
	p = prober.New(prober.Config{
		Registerer: w.metrics,
		Exec:       w, HostIP: "127.0.0.1", Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
		State: func(string) *podstate.Pod { w.mu.Lock(); defer w.mu.Unlock(); return w.state },
		Event: func(_ *corev1.Pod, _, _, reason, format string, args ...any) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, reason+": "+fmt.Sprintf(format, args...))
		},
	})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := p.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	wg.Go(func() {
		for {
			select {
			case <-p.Changed():
			case <-ctx.Done():
				return
			}
		}
	})
	return p, func() { cancel(); wg.Wait() }
}

func TestLiveness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		p, stop := start(t, w)
		defer stop()
		p.Add(pod(corev1.Container{LivenessProbe: exec("live", func(p *corev1.Probe) { p.InitialDelaySeconds = 30 })}))
		time.Sleep(29 * time.Second)
		if w.ran("live") != 0 {
			t.Error("a probe ran before its initial delay")
		}
		time.Sleep(15 * time.Second)
		w.set("live", 1)
		time.Sleep(21 * time.Second)
		if _, failed := p.Failed("one"); failed {
			t.Error("two failures were sufficient")
		}
		time.Sleep(10 * time.Second)
		if probe, failed := p.Failed("one"); !failed || probe != "liveness" {
			t.Errorf("three failures were not sufficient: %q %v", probe, failed)
		}
		if events := w.said(); len(events) != 3 || events[0] != "Unhealthy: Liveness probe failed: said live" {
			t.Errorf("events: %q", events)
		}
		// The container that replaces it starts over.
		w.set("live", 0)
		w.container("two")
		time.Sleep(time.Minute)
		if _, failed := p.Failed("two"); failed {
			t.Error("the new container inherited a failure")
		}
	})
}

func TestReadinessRisesAndFalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		p, stop := start(t, w)
		defer stop()
		web := pod(corev1.Container{ReadinessProbe: exec("ready", func(p *corev1.Probe) { p.SuccessThreshold, p.FailureThreshold = 2, 1 })})
		c := &web.Spec.Containers[0]
		p.Add(web)
		if p.Ready(c, "one") {
			t.Error("ready before the first probe")
		}
		time.Sleep(9 * time.Second)
		if p.Ready(c, "one") {
			t.Error("one success was sufficient")
		}
		time.Sleep(5 * time.Second)
		if !p.Ready(c, "one") {
			t.Error("two successes were not sufficient")
		}
		w.set("ready", 1)
		time.Sleep(10 * time.Second)
		if p.Ready(c, "one") {
			t.Error("a failure was not sufficient")
		}
	})
}

func TestStartupHoldsTheOthersBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		p, stop := start(t, w)
		defer stop()
		w.set("start", 1)
		web := pod(corev1.Container{
			StartupProbe:   exec("start", func(p *corev1.Probe) { p.PeriodSeconds, p.FailureThreshold = 1, 20 }),
			LivenessProbe:  exec("live", nil),
			ReadinessProbe: exec("ready", nil),
		})
		p.Add(web)
		time.Sleep(10 * time.Second)
		if w.ran("live")+w.ran("ready") != 0 || p.Started(web, &web.Spec.Containers[0], "one") {
			t.Error("the other probes ran before the startup probe succeeded")
		}
		w.set("start", 0)
		time.Sleep(12 * time.Second)
		if w.ran("live") == 0 || w.ran("ready") == 0 || !p.Ready(&web.Spec.Containers[0], "one") {
			t.Error("the other probes did not begin")
		}
		runs := w.ran("start")
		time.Sleep(time.Minute)
		if w.ran("start") != runs {
			t.Error("the startup probe continued after its success")
		}
	})
}

func TestTerminatingEndsLiveness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		p, stop := start(t, w)
		defer stop()
		p.Add(pod(corev1.Container{LivenessProbe: exec("live", nil), ReadinessProbe: exec("ready", nil)}))
		time.Sleep(5 * time.Second)
		p.Terminating("u")
		live, ready := w.ran("live"), w.ran("ready")
		time.Sleep(time.Minute)
		if w.ran("live") != live || w.ran("ready") == ready {
			t.Errorf("liveness ran %d more times, readiness %d", w.ran("live")-live, w.ran("ready")-ready)
		}
		p.Remove("u")
	})
}

func TestAProbeThatCannotBeMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{err: errors.New("the runtime is away")}
		p, stop := start(t, w)
		defer stop()
		p.Add(pod(corev1.Container{LivenessProbe: exec("live", nil)}))
		time.Sleep(time.Hour)
		if events := w.said(); len(events) == 0 || events[0] != "Unhealthy: Liveness probe errored and resulted in unknown state: the runtime is away" {
			t.Errorf("events: %q", events)
		}
		if probe, failed := p.Failed("one"); failed {
			t.Errorf("the %s probe has failed", probe)
		}
	})
}

// TestOverTheNetwork probes real sockets, so it runs in real time.
func TestOverTheNetwork(t *testing.T) {
	status := http.StatusOK
	var mu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Header.Get("X-Probe") != "yes" || !strings.HasPrefix(r.UserAgent(), "kube-probe/") || r.URL.RequestURI() != "/ok?x=1" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		w.WriteHeader(status)
	}))
	defer server.Close()
	_, text, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{}
	p, stop := start(t, w)
	defer stop()
	web := pod(corev1.Container{
		Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: int32(number)}},
		ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, TimeoutSeconds: 20, FailureThreshold: 1, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: "/ok?x=1", Port: intstr.FromString("http"), HTTPHeaders: []corev1.HTTPHeader{{Name: "X-Probe", Value: "yes"}},
		}}},
		LivenessProbe: &corev1.Probe{PeriodSeconds: 1, TimeoutSeconds: 20, FailureThreshold: 1, ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(int32(number))}}},
	})
	p.Add(web)
	eventually(t, "the pod never became ready", func() bool { return p.Ready(&web.Spec.Containers[0], "one") })
	mu.Lock()
	status = http.StatusServiceUnavailable
	mu.Unlock()
	eventually(t, "the pod stayed ready", func() bool { return !p.Ready(&web.Spec.Containers[0], "one") })
	if events := w.said(); events[0] != "Unhealthy: Readiness probe failed: HTTP probe failed with statuscode: 503" {
		t.Errorf("events: %q", events)
	}
	server.Close()
	eventually(t, "the liveness probe never failed", func() bool { _, failed := p.Failed("one"); return failed })
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal(what)
		}
	}
}
