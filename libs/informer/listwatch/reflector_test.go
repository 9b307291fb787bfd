package listwatch_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/listwatch"
	"github.com/garboard/garboard/libs/scheme"
)

// versions returns the resourceVersions of calls.
func versions(calls []*metav1.ListOptions) []string {
	var found []string
	for _, c := range calls {
		found = append(found, c.ResourceVersion)
	}
	return found
}

func expectVersions(t *testing.T, what string, calls []*metav1.ListOptions, want ...string) {
	t.Helper()
	if got := versions(calls); !slices.Equal(got, want) {
		t.Errorf("the resourceVersions of the %s are %q, want %q", what, got, want)
	}
}

func tooLarge() error {
	err := apierrors.NewTimeoutError("Too large resource version", 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
	return err
}

func quietWatch(int, *metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil }

// TestVersionsOfLists covers item 94.
func TestVersionsOfLists(t *testing.T) {
	for name, unknown := range map[string]error{"Expired": apierrors.NewResourceExpired("old"), "TooLarge": tooLarge()} {
		t.Run("94: 0, then the last version, then nothing after "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{
					list: func(n int) (*corev1.PodList, error) {
						if n == 3 {
							return nil, unknown
						}
						return listOf(fmt.Sprint(10*n), ""), nil
					},
					watch: func(n int, _ *metav1.ListOptions) (watch.Interface, error) {
						w := watch.NewFake()
						if n < 3 {
							go w.Error(&apierrors.NewResourceExpired("old").ErrStatus)
						}
						return w, nil
					},
				}
				to, _, end := run(t, s, informer.View{})
				pass(time.Minute)
				to.expect(t, "0 objects at 10", "0 objects at 20", "0 objects at 40")
				// The third and the fourth list are one attempt, without a wait between them.
				expectVersions(t, "lists", s.lists, "0", "10", "20", "")
				expectVersions(t, "watches", s.watches, "10", "20", "40")
				end()
			})
		})
	}
}

// initial returns a watch that sends the existing objects, and then a bookmark at a revision.
func initial(revision string, pods ...*corev1.Pod) *watch.FakeWatcher {
	w := watch.NewFakeWithChanSize(100, false)
	for _, p := range pods {
		w.Add(p)
	}
	bookmark(w, revision)
	return w
}

func bookmark(w *watch.FakeWatcher, revision string) {
	end := pod("", revision)
	end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	w.Action(watch.Bookmark, end)
}

// TestWatchList covers item 95.
func TestWatchList(t *testing.T) {
	t.Run("95: one whole view at the bookmark, and the same watch continues", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := watch.NewFakeWithChanSize(100, false)
			s := &script{watchList: func(int, *metav1.ListOptions) (watch.Interface, error) { return w, nil }}
			to, _, end := run(t, s, informer.View{Namespace: "a"})
			w.Add(pod("p1", "30")) // in the order of the keys, not of the versions
			w.Add(pod("p2", "4"))
			w.Add(pod("p3", "5"))
			w.Delete(pod("p3", "31")) // deleted in the meantime
			pass(5 * time.Second)
			to.expect(t)
			w.Action(watch.Bookmark, pod("", "31")) // A bookmark without the annotation ends nothing.
			pass(time.Second)
			to.expect(t)
			bookmark(w, "32")
			w.Modify(pod("p2", "33"))
			pass(time.Second)
			to.expect(t, "2 objects at 32", "+p2 to 33")
			o := s.watchLists[0]
			if o.ResourceVersion != "" || !*o.SendInitialEvents || o.ResourceVersionMatch != metav1.ResourceVersionMatchNotOlderThan || !o.AllowWatchBookmarks {
				t.Errorf("the watch was %+v", o)
			}
			if len(s.lists)+len(s.watches) != 0 || len(s.watchLists) != 1 {
				t.Errorf("%d lists and %d more watches", len(s.lists), len(s.watches))
			}
			end()
		})
	})
	for name, fail := range map[string]func() (watch.Interface, error){
		"refused": func() (watch.Interface, error) { return nil, errors.New("no") },
		"broken": func() (watch.Interface, error) {
			w := watch.NewFakeWithChanSize(100, false)
			w.Add(pod("p1", "5"))
			w.Error(&apierrors.NewInternalError(errors.New("broken")).ErrStatus)
			return w, nil
		},
		"silent":          func() (watch.Interface, error) { return watch.NewFake(), nil },
		"of a wrong type": func() (watch.Interface, error) { w := initial("5"); return w, nil },
	} {
		t.Run("95: "+name+" falls back to a list", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{
					list:  func(int) (*corev1.PodList, error) { return listOf("10", "", pod("p", "3")), nil },
					watch: quietWatch,
				}
				s.watchList = func(int, *metav1.ListOptions) (watch.Interface, error) {
					if name == "of a wrong type" {
						w := watch.NewFakeWithChanSize(100, false)
						w.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: "3"}})
						bookmark(w, "4")
						return w, nil
					}
					return fail()
				}
				to, _, end := run(t, s, informer.View{})
				pass(20 * time.Second)
				to.expect(t, "1 objects at 10")
				expectVersions(t, "lists", s.lists, "0")
				expectVersions(t, "watches", s.watches, "10")
				end()
			})
		})
	}
	t.Run("95: away or busy, retried", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &script{watchList: func(n int, _ *metav1.ListOptions) (watch.Interface, error) {
				switch n {
				case 1:
					return nil, refused()
				case 2:
					return nil, apierrors.NewTooManyRequests("busy", 0)
				}
				return initial("10"), nil
			}}
			to, _, end := run(t, s, informer.View{})
			pass(time.Minute)
			to.expect(t, "0 objects at 10")
			if len(s.lists) != 0 {
				t.Errorf("%d lists", len(s.lists))
			}
			end()
		})
	})
	t.Run("95: after Expired from now", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			first := initial("10")
			s := &script{watchList: func(n int, _ *metav1.ListOptions) (watch.Interface, error) {
				switch n {
				case 1:
					return first, nil
				case 2:
					return nil, apierrors.NewResourceExpired("old")
				}
				return initial("20"), nil
			}}
			to, _, end := run(t, s, informer.View{})
			pass(time.Second)
			first.Error(&apierrors.NewResourceExpired("old").ErrStatus)
			pass(time.Minute)
			to.expect(t, "0 objects at 10", "0 objects at 20")
			expectVersions(t, "watches", s.watchLists, "", "10", "")
			end()
		})
	})
	t.Run("95: not with NoWatchList", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &script{list: func(int) (*corev1.PodList, error) { return listOf("10", ""), nil }, watch: quietWatch}
			_, _, end := runWith(t, s, informer.View{}, listwatch.Config{NoWatchList: true})
			pass(time.Minute)
			if len(s.watchLists) != 0 || len(s.lists) != 1 {
				t.Errorf("%d watch-lists, %d lists", len(s.watchLists), len(s.lists))
			}
			end()
		})
	})
}

func refused() error {
	return &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}

// TestTheVersionMoves checks that the version moves with events and with bookmarks, and that a
// watch that ends at its timeout continues from there without a list (items 96, 98).
func TestTheVersionMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open *watch.FakeWatcher
		s := &script{
			watchList: func(int, *metav1.ListOptions) (watch.Interface, error) { return initial("10"), nil },
			watch: func(int, *metav1.ListOptions) (watch.Interface, error) {
				open = watch.NewFake()
				return open, nil
			},
		}
		s.watchList = func(int, *metav1.ListOptions) (watch.Interface, error) { open = initial("10"); return open, nil }
		to, _, end := run(t, s, informer.View{})
		pass(2 * time.Second)
		open.Stop() // 98: without an event, but not at once
		pass(2 * time.Second)
		open.Add(pod("p", "11"))
		pass(time.Second)
		open.Stop()
		pass(time.Second)
		open.Action(watch.Bookmark, pod("", "50"))
		pass(time.Second)
		open.Stop()
		pass(time.Second)
		to.expect(t, "0 objects at 10", "+p to 11", "to 50")
		expectVersions(t, "watches", s.watches, "10", "11", "50")
		if len(s.lists) != 0 || len(s.watchLists) != 1 {
			t.Errorf("%d lists", len(s.lists))
		}
		end()
	})
}

// ordered is a sink that records how many watches are open when it gets a whole view.
type ordered struct {
	sink
	asked func() int
	when  []int
}

func (o *ordered) Replace(at fabric.Position, objects []informer.Object) {
	o.when = append(o.when, o.asked())
	o.sink.Replace(at, objects)
}

// TestTheViewComesBeforeItsVersion checks that the whole view reaches the sink before the version
// is used (item 97).
func TestTheViewComesBeforeItsVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{list: func(int) (*corev1.PodList, error) { return listOf("10", ""), nil }, watch: quietWatch}
		to := &ordered{asked: func() int { return len(s.watches) }}
		follow(t, s, to, func() { pass(time.Second) })
		if !slices.Equal(to.when, []int{0}) {
			t.Errorf("%v watches were open when the sink got the whole view", to.when)
		}
	})
}

// follow runs a follower of pods while what runs.
func follow(t *testing.T, c client.Interface, to informer.Sink, what func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f := listwatch.New(c, nil).Follower(scheme.For[*corev1.Pod](scheme.New()), informer.View{}, to)
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	what()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestFaultsOfAWatch covers item 99.
func TestFaultsOfAWatch(t *testing.T) {
	internal := apierrors.NewInternalError(errors.New("oh"))
	for _, tt := range []struct {
		name string
		// open and in are the fault of the first watch, at its opening or in its middle.
		open, in error
		retry    time.Duration
		lists    int
	}{
		{"99: refused, the same again", refused(), nil, 0, 1},
		{"99: too many requests, the same again", apierrors.NewTooManyRequests("busy", 0), nil, 0, 1},
		{"99: too many requests in the middle, the same again", nil, apierrors.NewTooManyRequests("busy", 0), 0, 1},
		{"99: any other, a list", errors.New("oh"), nil, 0, 2},
		{"99: any other in the middle, a list", nil, apierrors.NewForbidden(corev1.Resource("pods"), "", nil), 0, 2},
		{"99: internal, a list", nil, internal, 0, 2},
		{"99: internal for a while, the same again", nil, internal, time.Minute, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{
					list: func(int) (*corev1.PodList, error) { return listOf("10", ""), nil },
					watch: func(n int, _ *metav1.ListOptions) (watch.Interface, error) {
						w := watch.NewFakeWithChanSize(1, false)
						if n == 1 {
							if tt.open != nil {
								return nil, tt.open
							}
							status := tt.in.(apierrors.APIStatus).Status()
							w.Error(&status)
						}
						return w, nil
					},
				}
				_, _, end := runWith(t, s, informer.View{}, listwatch.Config{MaxInternalErrorRetryDuration: tt.retry})
				pass(time.Minute)
				if len(s.lists) != tt.lists {
					t.Errorf("%d lists, want %d", len(s.lists), tt.lists)
				}
				expectVersions(t, "watches", s.watches, "10", "10")
				end()
			})
		})
	}
}

// TestBackoff checks the waits: 800 ms, doubled up to 30 s, plus up to as much again, and short
// again after two minutes without a wait (item 100).
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Time
		broken := true
		w := watch.NewFake()
		s := &script{
			list: func(int) (*corev1.PodList, error) {
				at = append(at, time.Now())
				if broken {
					return nil, errors.New("oh")
				}
				return listOf("10", ""), nil
			},
			watch: func(int, *metav1.ListOptions) (watch.Interface, error) { return w, nil },
		}
		_, _, end := run(t, s, informer.View{})
		pass(20 * time.Minute)
		least := 800 * time.Millisecond
		different := false
		for i := range len(at) - 1 {
			wait := at[i+1].Sub(at[i])
			if wait < least || wait > 2*least {
				t.Errorf("wait %d was %v, want %v to %v", i, wait, least, 2*least)
			}
			different = different || wait != least
			least = min(2*least, 30*time.Second)
		}
		if len(at) < 20 || !different {
			t.Errorf("%d lists in 20 minutes; different waits: %v", len(at), different)
		}
		s.mu.Lock()
		broken = false
		s.mu.Unlock()
		pass(3 * time.Minute)
		before := len(at)
		failed := time.Now()
		w.Error(&apierrors.NewResourceExpired("old").ErrStatus)
		pass(5 * time.Second)
		if wait := at[before].Sub(failed); wait < 800*time.Millisecond || wait > 1600*time.Millisecond {
			t.Errorf("after a healthy time the wait was %v", wait)
		}
		end()
	})
}

// TestWatchTimeouts checks the timeouts: a random time of five to ten minutes; a shorter minimum is
// ignored (item 101).
func TestWatchTimeouts(t *testing.T) {
	for _, least := range []time.Duration{0, time.Minute, 20 * time.Minute} {
		t.Run(fmt.Sprintf("101: %v", least), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{
					list: func(int) (*corev1.PodList, error) { return listOf("10", ""), nil },
					watch: func(int, *metav1.ListOptions) (watch.Interface, error) {
						w := watch.NewFake()
						time.AfterFunc(2*time.Second, w.Stop)
						return w, nil
					},
				}
				_, _, end := runWith(t, s, informer.View{}, listwatch.Config{MinWatchTimeout: least})
				pass(time.Minute)
				from := int64(max(least, 5*time.Minute).Seconds())
				seen := map[int64]bool{}
				for _, o := range append(s.watches, s.watchLists...) {
					if *o.TimeoutSeconds < from || *o.TimeoutSeconds > 2*from {
						t.Errorf("a watch of %d s, want %d to %d", *o.TimeoutSeconds, from, 2*from)
					}
					seen[*o.TimeoutSeconds] = true
				}
				if len(s.watches) < 20 || len(seen) < 10 {
					t.Errorf("%d watches of %d different lengths", len(s.watches), len(seen))
				}
				end()
			})
		})
	}
}

// TestVeryShortWatch checks that a watch that is closed at once does not count as healthy (item
// 102).
func TestVeryShortWatch(t *testing.T) {
	for _, event := range []bool{false, true} {
		t.Run(fmt.Sprintf("102: event %v", event), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{
					list: func(n int) (*corev1.PodList, error) { return listOf(fmt.Sprint(10*n), ""), nil },
					watch: func(n int, _ *metav1.ListOptions) (watch.Interface, error) {
						w := watch.NewFakeWithChanSize(1, false)
						if n == 1 {
							if event {
								w.Add(pod("p", "11"))
							}
							w.Stop()
						}
						return w, nil
					},
				}
				_, _, end := run(t, s, informer.View{})
				pass(time.Minute)
				if event {
					expectVersions(t, "lists", s.lists, "0")
					expectVersions(t, "watches", s.watches, "10", "11")
				} else {
					expectVersions(t, "lists", s.lists, "0", "10")
					expectVersions(t, "watches", s.watches, "10", "20")
				}
				end()
			})
		})
	}
}

// TestEventsThatCannotBeUnderstood checks that such an event is counted and skipped, and stops
// nothing. Soon after, the whole view is read again, in its current state (item 103).
func TestEventsThatCannotBeUnderstood(t *testing.T) {
	for name, spoil := range map[string]func(w *watch.FakeWatcher){
		"a wrong type": func(w *watch.FakeWatcher) {
			w.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", ResourceVersion: "11"}})
		},
		"no metadata":   func(w *watch.FakeWatcher) { w.Add(&metav1.Status{}) },
		"a table":       func(w *watch.FakeWatcher) { w.Add(&metav1.Table{}) },
		"no version":    func(w *watch.FakeWatcher) { w.Add(pod("p", "abc")) },
		"a strange one": func(w *watch.FakeWatcher) { w.Action("FROBNICATED", pod("p", "11")) },
	} {
		t.Run("103: "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				registry := prometheus.NewRegistry()
				first := watch.NewFake()
				s := &script{
					list: func(n int) (*corev1.PodList, error) {
						if n == 1 {
							return listOf("10", ""), nil
						}
						return listOf("13", "", pod("p", "11"), pod("q", "12")), nil
					},
					watch: func(n int, _ *metav1.ListOptions) (watch.Interface, error) {
						if n == 1 {
							return first, nil
						}
						return watch.NewFake(), nil
					},
				}
				to, _, end := runWith(t, s, informer.View{}, listwatch.Config{Registerer: registry})
				pass(time.Second)
				spoil(first)
				first.Add(pod("q", "12"))
				pass(100 * time.Millisecond)
				to.expect(t, "0 objects at 10", "+q to 12")
				pass(time.Minute)
				to.expect(t, "2 objects at 13")
				expectVersions(t, "lists", s.lists, "0", "")
				if got := counted(t, registry, "garboard_listwatch_discarded_total"); got != 1 {
					t.Errorf("%v discarded events were counted", got)
				}
				end()
			})
		})
	}
	t.Run("103: a watch that ends first", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			first := watch.NewFake()
			s := &script{
				list: func(n int) (*corev1.PodList, error) { return listOf(fmt.Sprint(10*n), ""), nil },
				watch: func(n int, _ *metav1.ListOptions) (watch.Interface, error) {
					if n == 1 {
						return first, nil
					}
					return watch.NewFake(), nil
				},
			}
			to, _, end := run(t, s, informer.View{})
			pass(2 * time.Second)
			first.Add(&metav1.Status{})
			first.Stop()
			pass(time.Minute)
			to.expect(t, "0 objects at 10", "0 objects at 20")
			end()
		})
	})
}

func counted(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, family := range families {
		if family.GetName() == name {
			for _, m := range family.GetMetric() {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// TestWatchErrorHandler checks that the handler is called for failures to list or to open a watch,
// before the wait. It is not called for a running watch that breaks (item 104).
func TestWatchErrorHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		s := &script{
			list: func(n int) (*corev1.PodList, error) {
				if n == 1 {
					return nil, errors.New("no list")
				}
				return listOf("10", ""), nil
			},
			watch: func(n int, _ *metav1.ListOptions) (watch.Interface, error) {
				w := watch.NewFakeWithChanSize(1, false)
				switch n {
				case 1:
					return nil, errors.New("no watch")
				case 2:
					w.Error(&apierrors.NewInternalError(errors.New("broken")).ErrStatus)
				}
				return w, nil
			},
		}
		_, _, end := runWith(t, s, informer.View{}, listwatch.Config{
			WatchErrorHandler: func(_ context.Context, kind *scheme.Kind, err error) {
				told = append(told, fmt.Sprintf("%s at list %d: %v", kind.Resource, len(s.lists), err))
			},
		})
		pass(time.Minute)
		want := []string{"pods at list 1: listing pods: no list", "pods at list 2: watching pods: no watch"}
		if !slices.Equal(told, want) {
			t.Errorf("the handler got %q, want %q", told, want)
		}
		end()
	})
}

// attentive is a sink that records failures.
type attentive struct {
	sink
	told []string
}

func (a *attentive) WatchError(_ context.Context, err error) { a.told = append(a.told, err.Error()) }

// TestAnInformerHearsOfFailures checks that failures reach the sink too, such as an informer with a
// handler of its own (item 104).
func TestAnInformerHearsOfFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{
			list: func(n int) (*corev1.PodList, error) {
				if n == 1 {
					return nil, errors.New("no list")
				}
				return listOf("10", ""), nil
			},
			watch: quietWatch,
		}
		to := &attentive{}
		follow(t, s, to, func() { pass(time.Minute) })
		if !slices.Equal(to.told, []string{"listing pods: no list"}) {
			t.Errorf("the sink got %q", to.told)
		}
	})
}

// TestPages covers item 105.
func TestPages(t *testing.T) {
	limits := func(calls []*metav1.ListOptions) (found []int64) {
		for _, c := range calls {
			found = append(found, c.Limit)
		}
		return found
	}
	for _, tt := range []struct {
		name  string
		paged bool // the first list comes in two pages
		size  int64
		want  []int64
	}{
		{"105: 500, and none at a version", false, 0, []int64{500, 0}},
		{"105: pages after pages", true, 0, []int64{500, 500, 500}},
		{"105: as configured", false, 7, []int64{7, 7}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{
					list: func(n int) (*corev1.PodList, error) {
						if n == 1 && tt.paged {
							return listOf("10", "more"), nil
						}
						return listOf("10", ""), nil
					},
					watch: func(n int, _ *metav1.ListOptions) (watch.Interface, error) {
						w := watch.NewFakeWithChanSize(1, false)
						if n == 1 {
							w.Error(&apierrors.NewResourceExpired("old").ErrStatus)
						}
						return w, nil
					},
				}
				_, _, end := runWith(t, s, informer.View{}, listwatch.Config{PageSize: tt.size})
				pass(time.Minute)
				if got := limits(s.lists); !slices.Equal(got, tt.want) {
					t.Errorf("limits %v, want %v", got, tt.want)
				}
				end()
			})
		})
	}
	t.Run("105: a page that expired makes a list in one", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &script{
				list: func(n int) (*corev1.PodList, error) {
					switch n {
					case 1:
						return listOf("10", "more", pod("p", "3")), nil
					case 2:
						return nil, apierrors.NewResourceExpired("too slow")
					}
					return listOf("20", "", pod("p", "3"), pod("q", "15")), nil
				},
				watch: quietWatch,
			}
			to, _, end := run(t, s, informer.View{})
			pass(time.Minute)
			to.expect(t, "2 objects at 20")
			if got := limits(s.lists); !slices.Equal(got, []int64{500, 500, 0}) {
				t.Errorf("limits %v", got)
			}
			expectVersions(t, "lists", s.lists, "0", "", "0")
			end()
		})
	})
}

// stopped counts the calls of Stop.
type stopped struct {
	*watch.FakeWatcher
	stops *int
}

func (s stopped) Stop() { *s.stops++; s.FakeWatcher.Stop() }

// TestTheWatchIsStopped checks that the watch is stopped on every way out, and that Run leaves
// nothing behind, since the bubble would not end (item 107).
func TestTheWatchIsStopped(t *testing.T) {
	for name, leave := range map[string]func(w *watch.FakeWatcher, end func()){
		"expired": func(w *watch.FakeWatcher, _ func()) { w.Error(&apierrors.NewResourceExpired("old").ErrStatus) },
		"damaged": func(w *watch.FakeWatcher, _ func()) { w.Add(&metav1.Status{}) },
		"closed":  func(w *watch.FakeWatcher, _ func()) { w.Stop() },
		"ended":   func(_ *watch.FakeWatcher, end func()) { end() },
	} {
		for _, way := range []string{"list", "watch-list"} {
			t.Run("107: "+name+" after a "+way, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					stops := 0
					w := initial("10")
					s := &script{
						list: func(int) (*corev1.PodList, error) { return listOf("10", ""), nil },
						watch: func(n int, _ *metav1.ListOptions) (watch.Interface, error) {
							if n > 1 || way != "list" {
								return watch.NewFake(), nil
							}
							return stopped{w, &stops}, nil
						},
					}
					if way != "list" {
						s.watchList = func(n int, _ *metav1.ListOptions) (watch.Interface, error) {
							if n > 1 {
								return initial("10"), nil
							}
							return stopped{w, &stops}, nil
						}
					}
					_, _, end := run(t, s, informer.View{})
					pass(2 * time.Second)
					ended := false
					leave(w, func() { ended = true; end() })
					pass(10 * time.Second)
					if stops != 1 {
						t.Errorf("the watch was stopped %d times", stops)
					}
					if !ended {
						end()
					}
				})
			})
		}
	}
}

// slow is a client whose lists take until their context ends.
type slow struct{ *script }

func (s slow) Do(ctx context.Context, _ client.Call, _ runtime.Object) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestTheEndOfAList checks that the end does not wait for a list, and that a panic in a list is a
// panic of Run (item 108).
func TestTheEndOfAList(t *testing.T) {
	t.Run("108: ended", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			follow(t, slow{&script{}}, &sink{}, func() { pass(time.Second) })
			if took := time.Since(begin); took != time.Second {
				t.Errorf("the end took %v, want a second", took)
			}
		})
	})
	t.Run("108: panic", func(t *testing.T) {
		s := &script{list: func(int) (*corev1.PodList, error) { panic("oh") }}
		f := listwatch.New(s, nil).Follower(scheme.For[*corev1.Pod](scheme.New()), informer.View{}, &sink{})
		defer func() {
			if r := recover(); r != "oh" {
				t.Errorf("Run panicked with %v", r)
			}
		}()
		if err := f.Run(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestRevisionsThatWentBackwards: after a restore, etcd has nothing at or after the version. The
// current state counts, even for a caller that waits for a revision that does not come.
func TestRevisionsThatWentBackwards(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{
			list: func(n int) (*corev1.PodList, error) {
				switch n {
				case 1:
					return listOf("100", ""), nil
				case 2:
					return nil, tooLarge()
				}
				return listOf("5", ""), nil
			},
			watch: quietWatch,
		}
		to, f, end := run(t, s, informer.View{})
		pass(time.Second)
		f.Require(120)
		pass(time.Minute)
		to.expect(t, "0 objects at 100", "0 objects at 5")
		expectVersions(t, "lists", s.lists, "0", "120", "")
		end()
	})
}
