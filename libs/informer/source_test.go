package informer_test

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/scheme"
)

// script is a Source whose statements come from a test.
type script struct {
	mu        sync.Mutex
	followers []*follower
	err       error
}

type follower struct {
	informer.FollowerDefaults
	kind     *scheme.Kind
	view     informer.View
	sink     informer.Sink
	err      error
	mu       sync.Mutex
	required []int64
}

func (s *script) Follower(kind *scheme.Kind, view informer.View, sink informer.Sink) informer.Follower {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &follower{kind: kind, view: view, sink: sink, err: s.err}
	s.followers = append(s.followers, f)
	return f
}

func (f *follower) Run(ctx context.Context) error {
	if f.err != nil {
		return f.err
	}
	<-ctx.Done()
	return nil
}

func (f *follower) Require(revision int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.required = append(f.required, revision)
}

// put and del create changes.
func put(pod *corev1.Pod) informer.Change {
	revision, err := strconv.ParseInt(pod.ResourceVersion, 10, 64)
	if err != nil {
		panic(err)
	}
	return informer.Change{Revision: revision, Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Object: pod}
}

func del(pod *corev1.Pod, revision int64) informer.Change {
	return informer.Change{Revision: revision, Deleted: true, Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)}
}

func pod(name, uid string, revision int64) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, UID: types.UID(uid), ResourceVersion: fmt.Sprint(revision),
	}}
}

// recorder is a handler that records its calls.
type recorder struct {
	mu    sync.Mutex
	calls []string
}

func (r *recorder) OnAdd(obj *corev1.Pod, initial bool) {
	word := "add"
	if initial {
		word = "initial"
	}
	r.note(fmt.Sprintf("%s %s/%s@%s", word, obj.Name, obj.UID, obj.ResourceVersion))
}

func (r *recorder) OnUpdate(old, obj *corev1.Pod) {
	r.note(fmt.Sprintf("update %s/%s@%s-%s", obj.Name, obj.UID, old.ResourceVersion, obj.ResourceVersion))
}

func (r *recorder) OnDelete(obj informer.DeletedObject[*corev1.Pod]) {
	last := "nothing"
	if obj.OptionalObj != nil {
		last = fmt.Sprintf("%s@%s", obj.OptionalObj.UID, obj.OptionalObj.ResourceVersion)
	}
	unknown := ""
	if obj.FinalStateUnknown {
		unknown = " unknown"
	}
	r.note(fmt.Sprintf("delete %s %s%s", obj.Key, last, unknown))
}

func (r *recorder) note(call string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, call)
}

// take returns the calls since the last take, once all goroutines are idle.
func (r *recorder) take() []string {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = nil
	return calls
}

// settled is a Sink whose calls return once all goroutines are idle.
type settled struct{ informer.Sink }

func (s settled) Replace(at fabric.Position, objects []informer.Object) {
	s.Sink.Replace(at, objects)
	synctest.Wait()
}

func (s settled) Apply(changes []informer.Change, revision int64) {
	s.Sink.Apply(changes, revision)
	synctest.Wait()
}

// pods is a running pod informer with its follower.
type pods struct {
	informer.SharedInformer[*corev1.Pod]
	// sink is a settled Sink once the informer runs.
	sink   informer.Sink
	follow *follower
	// end ends the informer and waits for it.
	end func()
}

// run starts a pod informer; for use in a synctest bubble.
func run(t *testing.T) *pods {
	t.Helper()
	p := prepare()
	p.start(t)
	return p
}

func prepare() *pods { return prepareWith(informer.Config{}) }

func prepareWith(cfg informer.Config) *pods {
	source := &script{}
	cfg.Source, cfg.Table = source, scheme.New()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	shared := informer.NewSharedInformer[*corev1.Pod](cfg, informer.View{})
	return &pods{SharedInformer: shared, sink: source.followers[0].sink, follow: source.followers[0]}
}

// runWith is run with a configuration.
func runWith(t *testing.T, cfg informer.Config) *pods {
	t.Helper()
	p := prepareWith(cfg)
	p.start(t)
	return p
}

func (p *pods) start(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := p.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	}()
	synctest.Wait()
	p.sink = settled{p.sink}
	p.end = func() {
		cancel()
		<-ended
	}
	t.Cleanup(p.end)
}

func handle(t *testing.T, p *pods, h informer.ResourceEventHandler[*corev1.Pod]) informer.Registration {
	t.Helper()
	registration, err := p.AddEventHandler(h)
	if err != nil {
		t.Fatal(err)
	}
	return registration
}
