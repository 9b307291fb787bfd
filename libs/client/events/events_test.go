package events_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"go.uber.org/goleak"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/scheme"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func pod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "u-1"}}
}

// start runs a recorder inside the bubble; the returned function stops it.
func start(t *testing.T, r *events.Recorder) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

func list(t *testing.T, c client.Interface) []*corev1.Event {
	t.Helper()
	items, _, err := client.Of[*corev1.Event](c).List(t.Context(), "", metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return items
}

func TestEventIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fake.New(scheme.New())
		r := events.New(c, "replicaset-controller", "host-1")
		r.Event(pod("web"), corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: %s", "web-1")
		stop := start(t, r)
		synctest.Wait()
		stop()
		got := list(t, c)
		if len(got) != 1 {
			t.Fatalf("got %d events, want 1", len(got))
		}
		e := got[0]
		if e.Message != "Created pod: web-1" || e.Reason != "SuccessfulCreate" || e.Type != "Normal" || e.Count != 1 {
			t.Errorf("got event %+v", e)
		}
		if e.InvolvedObject.Kind != "Pod" || e.InvolvedObject.APIVersion != "v1" || e.InvolvedObject.UID != "u-1" {
			t.Errorf("involved object %+v", e.InvolvedObject)
		}
		if e.Source.Component != "replicaset-controller" || e.ReportingController != "replicaset-controller" || e.ReportingInstance != "host-1" {
			t.Errorf("source %+v, %q %q", e.Source, e.ReportingController, e.ReportingInstance)
		}
		if e.Namespace != "default" || !strings.HasPrefix(e.Name, "web.") {
			t.Errorf("event is %s/%s", e.Namespace, e.Name)
		}
	})
}

func TestEqualEventsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fake.New(scheme.New())
		r := events.New(c, "x", "")
		stop := start(t, r)
		for range 4 {
			r.Event(pod("web"), corev1.EventTypeWarning, "Failed", "no")
			time.Sleep(time.Second)
		}
		stop()
		got := list(t, c)
		if len(got) != 1 || got[0].Count != 4 {
			t.Fatalf("events %+v, want one of count 4", got)
		}
		if !got[0].LastTimestamp.After(got[0].FirstTimestamp.Time) {
			t.Errorf("last seen %v, first seen %v", got[0].LastTimestamp, got[0].FirstTimestamp)
		}
	})
}

func TestSimilarEventsAreCombinedAndBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fake.New(scheme.New())
		r := events.New(c, "x", "")
		stop := start(t, r)
		for i := range 100 {
			r.Event(pod("web"), corev1.EventTypeWarning, "Failed", "reason %d", i)
			synctest.Wait()
		}
		stop()
		got := list(t, c)
		if len(got) > 11 {
			t.Errorf("%d events written, want at most 11", len(got))
		}
		combined := 0
		for _, e := range got {
			if strings.HasPrefix(e.Message, "(combined from similar events)") {
				combined++
			}
		}
		if combined != 1 {
			t.Errorf("%d combined events, want 1", combined)
		}
		if writes := len(c.Writes()); writes > 25 {
			t.Errorf("%d writes, want no more than a burst of 25", writes)
		}
	})
}

func TestWritesAreRetriedWithoutTheAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fake.New(scheme.New())
		failures := 3
		c.Fail(func(call client.Call) error {
			if call.Verb == "create" && failures > 0 {
				failures--
				return errors.New("connection refused")
			}
			return nil
		})
		r := events.New(c, "x", "")
		stop := start(t, r)
		r.Event(pod("web"), corev1.EventTypeNormal, "Started", "started")
		time.Sleep(time.Minute)
		stop()
		if got := list(t, c); len(got) != 1 {
			t.Fatalf("%d events, want 1", len(got))
		}
	})
}

// TestTheNextRunGoesOn checks that what was recorded while the API was away is written when Run is called
// again, once.
func TestTheNextRunGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fake.New(scheme.New())
		r := events.New(c, "job-controller", "")
		c.Fail(func(client.Call) error { return errors.New("connection refused") })
		stop := start(t, r)
		for _, reason := range []string{"FailedCreate", "FailedCreate", "SuccessfulCreate"} {
			r.Event(pod("web"), corev1.EventTypeNormal, reason, "of the first term")
		}
		time.Sleep(3 * time.Second)
		stop()
		c.Fail(nil)
		if got := list(t, c); len(got) != 0 {
			t.Errorf("without the API these were written: %v", got)
		}
		stop = start(t, r)
		time.Sleep(time.Minute)
		stop()
		var got []string
		for _, event := range list(t, c) {
			got = append(got, fmt.Sprint(event.Reason, " ", event.Count))
		}
		slices.Sort(got)
		if want := []string{"FailedCreate 2", "SuccessfulCreate 1"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestRunEndsWithoutTheAPI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fake.New(scheme.New())
		c.Fail(func(client.Call) error { return errors.New("connection refused") })
		r := events.New(c, "x", "")
		stop := start(t, r)
		for i := range 10 {
			r.Event(pod(fmt.Sprint("web-", i)), corev1.EventTypeNormal, "Started", "started")
		}
		synctest.Wait()
		stop()
	})
}

// TestFullQueue checks that events which nobody writes yet hold up nobody: the first thousand are kept.
func TestFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fake.New(scheme.New())
		r := events.New(c, "x", "")
		for i := range 3000 {
			r.Event(pod(fmt.Sprintf("web-%d", i)), corev1.EventTypeNormal, "Started", "started")
		}
		stop := start(t, r)
		synctest.Wait()
		stop()
		if n := len(list(t, c)); n != 1000 {
			t.Errorf("got %d events, want 1000", n)
		}
	})
}

// TestNilRecorder checks that no recorder is one that records nothing: it must not panic.
func TestNilRecorder(*testing.T) {
	var r *events.Recorder
	r.Event(pod("web"), corev1.EventTypeNormal, "Started", "started")
}

func TestLongNamesStayValid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fake.New(scheme.New())
		r := events.New(c, "x", "")
		stop := start(t, r)
		r.Event(pod(strings.Repeat("a", 253)), corev1.EventTypeNormal, "Started", "started")
		synctest.Wait()
		stop()
		got := list(t, c)
		if len(got) != 1 || len(got[0].Name) > 253 {
			t.Fatalf("events %v", got)
		}
	})
}

func TestLongMessagesAreCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fake.New(scheme.New())
		r := events.New(c, "test", "")
		r.Event(pod("web"), corev1.EventTypeWarning, "Failed", "%s", strings.Repeat("x", 1<<20))
		stop := start(t, r)
		synctest.Wait()
		stop()
		if got := list(t, c); len(got) != 1 || len(got[0].Message) != 1024 || !strings.HasSuffix(got[0].Message, "x...") {
			t.Errorf("there are %d events", len(got))
		}
	})
}

func FuzzCut(f *testing.F) {
	f.Add("text", 3)
	f.Add("aé\xff\xff€", 5)
	f.Add("\xff\xff\xff", 4)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit &= 0xff
		got := events.Cut(text, limit)
		if len(got) > limit || !utf8.ValidString(got) {
			t.Errorf("Cut(%q, %d) = %q", text, limit, got)
		}
		if len(text) <= limit && utf8.ValidString(text) && got != text {
			t.Errorf("valid text %q was changed to %q", text, got)
		}
	})
}
