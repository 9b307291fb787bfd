package controllers

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/listwatch"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/service"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func config() Config {
	return Config{Service: service.Config{
		API:    &rest.Config{Host: "https://127.0.0.1:6443", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("PEM")}},
		Bus:    bus.Config{URLs: []string{"nats://127.0.0.1:4222"}},
		Logger: slog.New(slog.DiscardHandler),
	}}
}

func TestConfig(t *testing.T) {
	if good, err := New(config()); err != nil {
		t.Errorf("a good configuration: %v", err)
	} else if bus, calls := good.cfg.Service.Bus.ReadPause, good.cfg.Service.CallPause; bus != readPause || calls != callPause {
		t.Errorf("reads pause for %v and %v, not %v and %v", bus, calls, readPause, callPause)
	}
	over := config()
	over.Service.Transport = client.TransportAuto
	if good, err := New(over); err != nil || good.cfg.Service.Bus.ReadPause != 0 {
		t.Errorf("reads of answers over NATS pause, or %v", err)
	}
	for want, spoil := range map[string]func(*Config){
		"no apiserver address":               func(c *Config) { c.Service.API = nil },
		"no NATS server":                     func(c *Config) { c.Service.Bus = bus.Config{} },
		"--nats-insecure":                    func(c *Config) { c.Service.Bus.URLs = []string{"nats://nats:4222"} },
		"no certificate":                     func(c *Config) { c.Service.API.CAData = nil },
		"whole seconds":                      func(c *Config) { c.Election.LeaseDuration = 20500 * time.Millisecond },
		"at least one second":                func(c *Config) { c.NodeLifecycle.MonitorGrace = time.Millisecond },
		"must be set together":               func(c *Config) { c.SigningKeyFile = "ca.key" },
		"--cluster-signing-duration is 1m0s": func(c *Config) { c.SigningDuration = time.Minute },
		"--legacy-service-account-token-clean-up-period is -1h0m0s": func(c *Config) { c.UnusedTokenPeriod = -time.Hour },
		"configuring the": func(c *Config) { c.Service.API = nil; c.Service.Bus = bus.Config{} },
		"--attach-detach-reconcile-sync-period is 1ms": func(c *Config) { c.AttachDetach.SyncPeriod = time.Millisecond },
	} {
		cfg := config()
		spoil(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error about %q, got %v", want, err)
		}
	}
	inProcess := config()
	inProcess.Service.Bus = bus.Config{InProcess: func() (net.Conn, error) { return nil, net.ErrClosed }}
	if _, err := New(inProcess); err != nil {
		t.Errorf("an in-process bus: %v", err)
	}
}

// TestNewReadsNoFile checks that files named in the configuration are read only by Run.
func TestNewReadsNoFile(t *testing.T) {
	cfg := config()
	cfg.Service.API.CAData, cfg.Service.API.CAFile = nil, "/does/not/exist"
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "reading the certificate of the apiserver's authority") {
		t.Errorf("run without the authority's certificate: %v", err)
	}
}

// replica runs one replica in the bubble; the returned function stops it.
func replica(t *testing.T, p *controltest.Plane, identity string) (s *Service, stop func()) {
	t.Helper()
	return replicaOf(t, p, identity, func(source informer.Source) informer.Source { return source })
}

// replicaOf is replica with another source.
func replicaOf(t *testing.T, p *controltest.Plane, identity string, wrap func(informer.Source) informer.Source) (s *Service, stop func()) {
	t.Helper()
	cfg := config()
	cfg.Service.Identity = identity
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s.shell.Use(p.Client, wrap(listwatch.New(p.Client, cfg.Service.Logger)))
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	return s, func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("replica %s: %v", identity, err)
		}
	}
}

func aDeployment(name string, replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		},
	}
}

func TestEverythingTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t)
		p.Add(p.RunPods)
		p.Start()
		s, stop := replica(t, p, "one")
		defer stop()
		controltest.Create(p, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
		controltest.Create(p, aDeployment("web", 3))
		time.Sleep(30 * time.Second)
		if err := s.Ready(t.Context()); err != nil {
			t.Errorf("not ready: %v", err)
		}
		resources := map[string]bool{}
		for _, w := range s.Watchers() {
			resources[w.Resource] = w.Service == "controllers" && w.Synced && w.LagRevisions == 0
		}
		if !resources["deployments"] || !resources["replicasets"] || !resources["pods"] {
			t.Errorf("got watchers %+v, want deployments, replicasets and pods", s.Watchers())
		}
		if got := controltest.Get[*appsv1.Deployment](p, "default", "web").Status; got.AvailableReplicas != 3 {
			t.Errorf("got status %+v, want 3 available replicas", got)
		}
		controltest.Get[*corev1.ServiceAccount](p, "default", "default")
		if ca := controltest.Get[*corev1.ConfigMap](p, "default", "kube-root-ca.crt"); ca.Data["ca.crt"] != "PEM" {
			t.Errorf("got certificate %v, want PEM", ca.Data)
		}
		p.Remove(controltest.Get[*appsv1.Deployment](p, "default", "web"))
		time.Sleep(30 * time.Second)
		if sets, pods := controltest.List[*appsv1.ReplicaSet](p), controltest.List[*corev1.Pod](p); len(sets) != 0 || len(pods) != 0 {
			t.Errorf("got %d ReplicaSets and %d pods left, want none", len(sets), len(pods))
		}
	})
}

func TestAnotherReplicaTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t)
		p.Add(p.RunPods)
		p.Start()
		_, stopOne := replica(t, p, "one")
		time.Sleep(5 * time.Second)
		two, stopTwo := replica(t, p, "two")
		defer stopTwo()
		controltest.Create(p, aDeployment("web", 2))
		time.Sleep(5 * time.Second)
		lease := controltest.Get[*coordinationv1.Lease](p, "kube-system", "kube-controller-manager")
		if *lease.Spec.HolderIdentity != "one" {
			t.Fatalf("got leader %s, want the first replica", *lease.Spec.HolderIdentity)
		}
		if err := two.Ready(t.Context()); err != nil {
			t.Errorf("the standby is not warm: %v", err)
		}
		stopOne()
		controltest.Change(p, "default", "web", func(d *appsv1.Deployment) { *d.Spec.Replicas = 4 })
		time.Sleep(30 * time.Second)
		lease = controltest.Get[*coordinationv1.Lease](p, "kube-system", "kube-controller-manager")
		if *lease.Spec.HolderIdentity != "two" {
			t.Errorf("got leader %s, want the other replica", *lease.Spec.HolderIdentity)
		}
		if pods := controltest.List[*corev1.Pod](p); len(pods) != 4 {
			t.Errorf("got %d pods", len(pods))
		}
		if sets := controltest.List[*appsv1.ReplicaSet](p); len(sets) != 1 {
			t.Errorf("got %d ReplicaSets", len(sets))
		}
	})
}

// lateSource delivers nothing about pods before a given time.
type lateSource struct {
	informer.Source
	until *atomic.Pointer[time.Time]
}

func (l lateSource) Follower(kind *scheme.Kind, view informer.View, sink informer.Sink) informer.Follower {
	if kind.Kind == "Pod" {
		sink = lateSink{sink, l.until}
	}
	return l.Source.Follower(kind, view, sink)
}

type lateSink struct {
	informer.Sink
	until *atomic.Pointer[time.Time]
}

func (l lateSink) Apply(changes []informer.Change, revision int64) {
	time.Sleep(time.Until(*l.until.Load()))
	l.Sink.Apply(changes, revision)
}

func (l lateSink) Replace(at fabric.Position, objects []informer.Object) {
	time.Sleep(time.Until(*l.until.Load()))
	l.Sink.Replace(at, objects)
}

// TestANewLeaderKnowsWhatItsPredecessorDid checks that a new leader does not repeat its
// predecessor's latest writes, even though its cache does not show them yet.
func TestANewLeaderKnowsWhatItsPredecessorDid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t)
		made := map[types.UID]bool{}
		p.Start()
		_, stopOne := replica(t, p, "one")
		time.Sleep(time.Second)
		var until atomic.Pointer[time.Time]
		until.Store(&time.Time{})
		_, stopTwo := replicaOf(t, p, "two", func(source informer.Source) informer.Source { return lateSource{source, &until} })
		defer stopTwo()
		time.Sleep(20 * time.Second)
		late := time.Now().Add(9 * time.Second) // after the new leader's election
		until.Store(&late)
		controltest.Create(p, aDeployment("web", 3))
		time.Sleep(500 * time.Millisecond)
		stopOne()
		for range 300 {
			for _, pod := range controltest.List[*corev1.Pod](p) {
				made[pod.UID] = true
			}
			time.Sleep(100 * time.Millisecond)
		}
		lease := controltest.Get[*coordinationv1.Lease](p, "kube-system", "kube-controller-manager")
		if *lease.Spec.HolderIdentity != "two" {
			t.Errorf("got leader %s", *lease.Spec.HolderIdentity)
		}
		if len(made) != 3 {
			t.Errorf("got %d pods created, want 3", len(made))
		}
	})
}

func TestNotReadyBeforeItIsConnected(t *testing.T) {
	s, err := New(config())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Ready(t.Context()); err == nil {
		t.Error("a replica that is not connected counts as ready")
	}
}
