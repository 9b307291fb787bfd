// Package controltest runs controllers in a test against an API in memory. All of it may run in a
// testing/synctest bubble.
package controltest

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/listwatch"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/podcache"
)

// Plane is an API with informers on it, and the parts that run on them.
type Plane struct {
	*fake.Client
	// Config is what Deps returns.
	Config controller.Deps
	t      testing.TB
	parts  []func(context.Context) error

	mu sync.Mutex
	// used are the controllers' calls, except the ones by which informers follow the API.
	used []client.Call
}

// New returns a plane that holds objs.
func New(t testing.TB, objs ...scheme.Object) *Plane {
	t.Helper()
	return NewLate(t, "", 0, objs...)
}

// NewLate returns a plane that holds objs, and whose informer of one kind receives every change
// with the given delay.
func NewLate(t testing.TB, kind string, delay time.Duration, objs ...scheme.Object) *Plane {
	t.Helper()
	table := scheme.New()
	c := fake.New(table, objs...)
	logger := slog.New(slog.DiscardHandler)
	if testing.Verbose() {
		logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	p := &Plane{Client: c, t: t}
	p.Config = controller.Deps{
		Client: controller.Client(noted{c, &p.mu, &p.used}), Logger: logger, Roots: &controller.Roots{},
		Informers: informer.NewFactory(informer.FactoryConfig{
			Source: late{listwatch.New(c, logger), kind, delay}, Table: table, Logger: logger, Service: "test",
		}),
	}
	if err := podcache.Trim(p.Config.Informers); err != nil {
		t.Fatal(err)
	}
	p.parts = append(p.parts, p.Config.Informers.Run)
	return p
}

// late is a source that delays the changes of one kind.
type late struct {
	informer.Source
	kind  string
	delay time.Duration
}

func (l late) Follower(kind *scheme.Kind, view informer.View, sink informer.Sink) informer.Follower {
	if kind.Kind == l.kind {
		sink = lateSink{sink, l.delay}
	}
	return l.Source.Follower(kind, view, sink)
}

type lateSink struct {
	informer.Sink
	delay time.Duration
}

// Apply passes changes on after the delay.
func (l lateSink) Apply(changes []informer.Change, revision int64) {
	timer := time.NewTimer(l.delay)
	defer timer.Stop()
	<-timer.C
	l.Sink.Apply(changes, revision)
}

// Add adds a part that Start runs.
func (p *Plane) Add(run func(context.Context) error) { p.parts = append(p.parts, run) }

// Declare adds a controller that Start runs.
func (p *Plane) Declare(declare func(controller.Deps) *controller.Spec) {
	p.t.Helper()
	p.Add(p.Runner(declare).Run)
}

// Runner returns the runner of a controller.
func (p *Plane) Runner(declare func(controller.Deps) *controller.Spec) *controller.Runner {
	p.t.Helper()
	d := p.Deps()
	runner, err := controller.NewRunner(d, declare(d))
	if err != nil {
		p.t.Fatal(err)
	}
	return runner
}

// Deps returns what controllers under test are made from.
func (p *Plane) Deps() controller.Deps { return p.Config }

// Start runs everything until the test ends, or until the returned function is called.
func (p *Plane) Start() (stop func()) {
	p.t.Helper()
	ctx, cancel := context.WithCancel(p.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- controller.RunAll(ctx, p.parts...) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			p.t.Errorf("a part of the plane failed: %v", err)
		}
	}
	p.t.Cleanup(stop)
	return stop
}

// Context returns the test's context.
func (p *Plane) Context() context.Context { return p.t.Context() }

// Get reads one object, and fails the test if it does not exist.
func Get[T scheme.Object](p *Plane, namespace, name string) T {
	p.t.Helper()
	obj, err := client.Of[T](p.Client).Get(p.t.Context(), namespace, name, metav1.GetOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	return obj
}

// List reads all objects of a kind.
func List[T scheme.Object](p *Plane) []T {
	p.t.Helper()
	items, _, err := client.Of[T](p.Client).List(p.t.Context(), "", metav1.ListOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	return items
}

// Change reads an object, changes it and writes it back, and retries on conflicts.
func Change[T scheme.Object](p *Plane, namespace, name string, change func(T)) T {
	p.t.Helper()
	return write(p, namespace, name, change, client.Of[T](p.Client).Update)
}

// SetStatus is Change of an object's status.
func SetStatus[T scheme.Object](p *Plane, namespace, name string, change func(T)) T {
	p.t.Helper()
	return write(p, namespace, name, change, client.Of[T](p.Client).UpdateStatus)
}

func write[T scheme.Object](p *Plane, namespace, name string, change func(T),
	update func(context.Context, T, metav1.UpdateOptions) (T, error)) T {
	p.t.Helper()
	for {
		obj := Get[T](p, namespace, name)
		change(obj)
		obj, err := update(p.t.Context(), obj, metav1.UpdateOptions{})
		if err == nil {
			return obj
		}
		if !apierrors.IsConflict(err) {
			p.t.Fatal(err)
		}
	}
}

// Create writes a new object.
func Create[T scheme.Object](p *Plane, obj T) T {
	p.t.Helper()
	obj, err := client.Of[T](p.Client).Create(p.t.Context(), obj, metav1.CreateOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	return obj
}

// Events returns the messages of the Events with a reason, sorted by the Events' names.
func (p *Plane) Events(reason string) []string {
	p.t.Helper()
	var messages []string
	for _, e := range List[*corev1.Event](p) {
		if e.Reason == reason {
			messages = append(messages, e.Message)
		}
	}
	return messages
}

// MarkReady sets a pod's phase and readiness as of now.
func MarkReady(p *Plane, namespace, name string, ready bool) {
	p.t.Helper()
	SetStatus(p, namespace, name, func(pod *corev1.Pod) { SetReady(pod, ready) })
}

// Flap makes n pods of the default namespace, with a name and a number from 0 on, not ready, ready and not ready again, a
// second apart.
func Flap(p *Plane, name string, n int) {
	p.t.Helper()
	for _, ready := range []bool{false, true, false} {
		for i := range n {
			MarkReady(p, metav1.NamespaceDefault, fmt.Sprint(name, i), ready)
		}
		<-time.After(time.Second)
	}
}

// SetReady sets a pod's status to running, ready or not, as of now.
func SetReady(pod *corev1.Pod, ready bool) {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.Now()}}
}

// RunPods makes every pod ready as soon as it appears, and removes every pod that is being deleted,
// in place of a scheduler and nodes.
func (p *Plane) RunPods(ctx context.Context) error {
	pods := client.Of[*corev1.Pod](p.Client)
	w, err := pods.Watch(ctx, "", metav1.ListOptions{})
	if err != nil {
		return err
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		pod, ok := e.Object.(*corev1.Pod)
		if !ok || e.Type == watch.Deleted {
			continue
		}
		// A conflict or a deleted pod leads to another event, or none is needed.
		switch {
		case pod.DeletionTimestamp != nil:
			_ = pods.Delete(ctx, pod.Namespace, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		case pod.Status.Phase == corev1.PodPending:
			SetReady(pod, true)
			_, _ = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		}
	}
	return nil
}
