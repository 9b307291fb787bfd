package consistent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/consistent"
	"github.com/garboard/garboard/libs/scheme"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// driven is a source whose followers are driven by the test, in the order of the views.
type driven struct {
	mu       sync.Mutex
	sinks    []informer.Sink
	required int64
}

type follower struct{ source *driven }

func (d *driven) Follower(_ *scheme.Kind, _ informer.View, sink informer.Sink) informer.Follower {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sinks = append(d.sinks, sink)
	return follower{d}
}

func (follower) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (f follower) Require(revision int64) {
	f.source.mu.Lock()
	defer f.source.mu.Unlock()
	f.source.required = max(f.source.required, revision)
}

func pod(name string, revision int64) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(name), ResourceVersion: fmt.Sprint(revision)}}
}

func put(name string, revision, prev int64) []informer.Change {
	return []informer.Change{{Revision: revision, Prev: prev, Namespace: "a", Name: name, UID: name, Object: pod(name, revision)}}
}

// two runs two views, x at revision 10 and y at 20, with the given histories.
func two(t *testing.T, histories ...string) (x, y *consistent.View[*corev1.Pod], d *driven) {
	t.Helper()
	d = &driven{}
	factory := informer.NewFactory(informer.FactoryConfig{Source: d, Table: scheme.New(), Service: "test"})
	x = consistent.Of(informer.ForView[*corev1.Pod](factory, informer.View{Namespace: "a"}))
	y = consistent.Of(informer.ForView[*corev1.Pod](factory, informer.View{Scope: "n"}))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- factory.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	for i, sink := range d.sinks {
		sink.(informer.Continuity).History(histories[i])
		sink.Replace([]informer.Object{pod("first", 5)}, int64(10+10*i))
	}
	synctest.Wait()
	return x, y, d
}

func versions(v *consistent.View[*corev1.Pod]) []string {
	var found []string
	for _, p := range v.Objects() {
		found = append(found, p.Name+"@"+p.ResourceVersion)
	}
	slices.Sort(found)
	return found
}

func TestTake(t *testing.T) {
	for _, tt := range []struct {
		name string
		say  func(x, y informer.Sink) // after a Take has begun at 20
		at   int64
		x, y []string
	}{
		{"nothing happened up to there", func(x, _ informer.Sink) { x.Apply(nil, 25) }, 20, []string{"first@5"}, []string{"first@5"}},
		{"a change right there", func(x, _ informer.Sink) { x.Apply(put("p", 20, 5), 20) }, 20, []string{"first@5", "p@20"}, []string{"first@5"}},
		{"the next change is beyond", func(x, _ informer.Sink) { x.Apply(put("p", 30, 5), 30) }, 20, []string{"first@5"}, []string{"first@5"}},
		{"y changes in the meantime", func(x, y informer.Sink) {
			y.Apply(put("q", 21, 5), 21)
			x.Apply(put("p", 30, 5), 30)
		}, 20, []string{"first@5"}, []string{"first@5"}},
		{"changes up to there are not known", func(x, y informer.Sink) {
			x.Apply(put("p", 30, 0), 30) // perhaps the newest of several
			synctest.Wait()
			y.Apply(put("q", 31, 5), 31)
			x.Apply(nil, 32)
		}, 30, []string{"first@5", "p@30"}, []string{"first@5"}},
		{"a whole view beyond", func(x, y informer.Sink) {
			x.Replace([]informer.Object{pod("p", 30)}, 30)
			synctest.Wait()
			y.Apply(put("q", 31, 5), 31)
		}, 30, []string{"p@30"}, []string{"first@5"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x, y, d := two(t, "h", "h")
				var at int64
				var err error
				done := make(chan struct{})
				go func() {
					defer close(done)
					at, err = consistent.Take(t.Context(), 0, x, y)
				}()
				synctest.Wait()
				if d.required != 20 {
					t.Errorf("asked for %d", d.required)
				}
				tt.say(d.sinks[0], d.sinks[1])
				<-done
				if err != nil || at != tt.at || !slices.Equal(versions(x), tt.x) || !slices.Equal(versions(y), tt.y) {
					t.Errorf("got revision %d, %v: %v, %v; want %d: %v, %v", at, err, versions(x), versions(y), tt.at, tt.x, tt.y)
				}
			})
		})
	}
}

func TestTakeRefuses(t *testing.T) {
	for _, tt := range []struct {
		histories []string
		want      error
	}{
		{[]string{"h", "other"}, consistent.ErrHistories},
		{[]string{"", ""}, consistent.ErrNoHistory},
		{[]string{"h", ""}, consistent.ErrNoHistory},
		{[]string{"h", "h"}, context.DeadlineExceeded}, // x never reaches the revision of y
	} {
		synctest.Test(t, func(t *testing.T) {
			x, y, _ := two(t, tt.histories...)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if _, err := consistent.Take(ctx, 0, x, y); !errors.Is(err, tt.want) {
				t.Errorf("%v: %v, want %v", tt.histories, err, tt.want)
			}
			if _, err := consistent.Take(ctx, 0); err == nil {
				t.Error("no error for a Take without parts")
			}
		})
	}
}
