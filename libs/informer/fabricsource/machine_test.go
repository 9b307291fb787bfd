package fabricsource

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
)

// recorder records the calls of a machine's sink.
type recorder struct {
	informer.SinkDefaults
	said []string
}

func (r *recorder) Replace(at fabric.Position, objects []informer.Object) {
	text := "replace"
	for _, obj := range objects {
		text += fmt.Sprintf(" %s/%s@%s", obj.GetName(), obj.GetUID(), obj.GetResourceVersion())
	}
	r.said = append(r.said, fmt.Sprintf("%s to %d", text, at.Revision))
}

func (r *recorder) Apply(changes []informer.Change, revision int64) {
	text := "apply"
	for _, c := range changes {
		sign := "+"
		if c.Deleted {
			sign = "-"
		}
		text += fmt.Sprintf(" %s%s/%s@%d", sign, c.Name, c.UID, c.Revision)
	}
	r.said = append(r.said, fmt.Sprintf("%s to %d", text, revision))
}

func (r *recorder) expect(t *testing.T, want ...string) {
	t.Helper()
	if len(r.said) != len(want) || len(want) > 0 && !reflect.DeepEqual(r.said, want) {
		t.Errorf("the sink got\n%q, want\n%q", r.said, want)
	}
	r.said = nil
}

var (
	epoch = time.Unix(1_000_000, 0)
	h1    = fabric.History{Created: 1, Nonce: 1}
	h2    = fabric.History{Created: 2, Nonce: 1}
)

func put(name, uid string, prev, revision int64) statement {
	return statement{History: h1, Prev: prev, Revision: revision, Changes: []informer.Change{
		{Revision: revision, Name: name, UID: uid, Object: pod(name, uid, revision)},
	}}
}

func gone(name, uid string, prev, revision int64) statement {
	return statement{History: h1, Prev: prev, Revision: revision, Changes: []informer.Change{
		{Revision: revision, Deleted: true, Name: name, UID: uid},
	}}
}

func pod(name, uid string, revision int64) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid), ResourceVersion: fmt.Sprint(revision)}}
}

// synced returns a machine at revision 10 that holds a/1, and has sent its first asks.
func synced(t *testing.T, whole bool) (*machine, *recorder) {
	t.Helper()
	r := &recorder{}
	m := newMachine(r, whole, func(d time.Duration) time.Duration { return d / 2 }, nothingCounted{})
	m.start(epoch)
	a, ok := tickUntilAsk(m, epoch)
	if !ok || a.delta || !a.fresh {
		t.Fatalf("the first ask is %+v, %v", a, ok)
	}
	m.answered(epoch, m.replace(h1, []informer.Object{pod("a", "1", 7)}, 10, false))
	m.secondAt = time.Time{}
	r.expect(t, "replace a/1@7 to 10")
	return m, r
}

// tickUntilAsk advances the time to the next due moments until there is an ask.
func tickUntilAsk(m *machine, now time.Time) (ask, bool) {
	for range 20 {
		if a, ok := m.tick(now); ok {
			return a, true
		}
		next := m.next()
		if next.IsZero() || next.Sub(now) > time.Second {
			return ask{}, false
		}
		now = next
	}
	return ask{}, false
}

func TestAcceptanceRule(t *testing.T) {
	m, r := synced(t, true)
	m.change(epoch, put("b", "2", 8, 12), false) // prev <= position < revision
	r.expect(t, "apply +b/2@12 to 12")
	m.change(epoch, put("b", "2", 8, 12), false) // a repetition
	m.change(epoch, put("b", "2", 5, 9), false)  // late
	r.expect(t)
	m.change(epoch, gone("a", "1", 14, 15), false) // early
	m.change(epoch, put("c", "3", 15, 16), false)
	r.expect(t)
	m.change(epoch, put("b", "2", 12, 14), false) // the missing change
	r.expect(t, "apply +b/2@14 to 14", "apply -a/1@15 to 15", "apply +c/3@16 to 16")
	if a, ok := tickUntilAsk(m, epoch); ok {
		t.Errorf("nothing is missing, and %+v was asked", a)
	}
	old := put("b", "2", 16, 17)
	old.History = fabric.History{Created: 0, Nonce: 9}
	m.change(epoch, old, false)
	r.expect(t)
}

func TestGapIsAskedFor(t *testing.T) {
	m, r := synced(t, true)
	m.change(epoch, put("b", "2", 11, 12), false)
	a, ok := tickUntilAsk(m, epoch)
	if !ok || !a.delta || a.since != 10 || a.minimum != 12 || a.history != h1 {
		t.Fatalf("the ask is %+v, %v", a, ok)
	}
	m.change(epoch, put("c", "3", 12, 13), false)
	if a, ok := tickUntilAsk(m, epoch); ok {
		t.Errorf("two asks at once: %+v", a)
	}
	s := statement{History: h1, Prev: 10, Revision: 12, Changes: []informer.Change{put("b", "2", 0, 12).Changes[0], gone("a", "1", 0, 11).Changes[0]}}
	m.answered(epoch, m.changes(s))
	r.expect(t, "apply -a/1@11 +b/2@12 to 12", "apply +c/3@13 to 13")
	if a, ok := tickUntilAsk(m, epoch); ok {
		t.Errorf("nothing is missing, and %+v was asked", a)
	}
}

func TestOmittedBodyIsAskedFor(t *testing.T) {
	m, r := synced(t, true)
	m.change(epoch, put("s", "2", 10, 11), true)
	r.expect(t)
	if a, ok := tickUntilAsk(m, epoch); !ok || a.minimum != 11 || a.since != 10 {
		t.Fatalf("the ask is %+v, %v", a, ok)
	}
}

func TestAnswersThatAreOld(t *testing.T) {
	m, r := synced(t, true)
	for _, revision := range []int64{9, 10} {
		if m.replace(h1, nil, revision, false) {
			t.Errorf("a whole view at %d was accepted at 10", revision)
		}
	}
	if m.changes(statement{History: h1, Prev: 11, Revision: 13}) || m.changes(statement{History: h1, Prev: 2, Revision: 10}) {
		t.Error("changes that do not fit were accepted")
	}
	r.expect(t)
	if !m.replace(h1, []informer.Object{pod("a", "1", 7)}, 10, true) {
		t.Error("a requested whole view was refused")
	}
}

func TestProgress(t *testing.T) {
	m, r := synced(t, true)
	m.progress(epoch, h1, 9, 20, 0)
	r.expect(t, "apply to 20")
	m.progress(epoch, h1, 9, 15, 0) // an older one
	r.expect(t)
	m.progress(epoch, h1, 22, 25, 0) // a change was missed
	r.expect(t)
	if a, ok := tickUntilAsk(m, epoch); !ok || a.minimum != 22 || a.since != 20 {
		t.Errorf("the ask is %+v, %v", a, ok)
	}
}

func TestProgressInANarrowView(t *testing.T) {
	m, r := synced(t, false)
	m.progress(epoch, h1, 22, 25, 0)
	r.expect(t)
	if a, ok := tickUntilAsk(m, epoch); ok {
		t.Fatalf("asked at once: %+v", a)
	}
	if wait := m.quietAt.Sub(epoch); wait < quietMin || wait > quietMin+quietMore {
		t.Errorf("the quiet turn is in %v", wait)
	}
	if a, ok := m.tick(m.quietAt); !ok || a.minimum != 22 || a.since != 10 {
		t.Errorf("the ask is %+v, %v", a, ok)
	}
}

// TestAdrift checks that a view whose position is before the publisher's window asks soon, even if
// its quiet turn was planned for later. It does not ask if it catches up first.
func TestAdrift(t *testing.T) {
	m, _ := synced(t, false)
	m.progress(epoch, h1, 22, 25, 10) // its position is the window's start
	if wait := m.quietAt.Sub(epoch); wait < quietMin {
		t.Errorf("the quiet turn of a view within the window is in %v", wait)
	}
	m.progress(epoch, h1, 1_000_022, 1_000_025, 1_000_020) // etcd was restored with a higher revision
	if wait := m.quietAt.Sub(epoch); wait > adriftJitter {
		t.Errorf("a view that is adrift asks in %v", wait)
	}
	planned := m.quietAt
	m.progress(epoch.Add(planned.Sub(epoch)/2), h1, 1_000_022, 1_000_026, 1_000_020)
	if m.quietAt.After(planned) {
		t.Error("more progress postpones the ask")
	}
	if a, ok := m.tick(m.quietAt.Add(-1)); ok {
		t.Errorf("asked before the time: %+v", a)
	}
	if a, ok := m.tick(m.quietAt); !ok || a.minimum != 1_000_022 || a.since != 10 {
		t.Errorf("the ask is %+v, %v", a, ok)
	}

	m, r := synced(t, false)
	m.progress(epoch, h1, 22, 25, 20)
	m.replace(h1, []informer.Object{pod("a", "1", 7)}, 26, false)
	r.expect(t, "replace a/1@7 to 26")
	if a, ok := m.tick(epoch.Add(2 * adriftJitter)); ok {
		t.Errorf("asked although it had caught up: %+v", a)
	}

	m, r = synced(t, false)
	m.progress(epoch, h1, 9, 25, 20) // nothing happened since the position
	r.expect(t, "apply to 25")
	if !m.quietAt.IsZero() {
		t.Error("it asks although it had caught up")
	}
}

func TestSilenceIsAskedAbout(t *testing.T) {
	m, _ := synced(t, true)
	if a, ok := m.tick(epoch.Add(silence - time.Millisecond)); ok {
		t.Fatalf("asked before the time: %+v", a)
	}
	now := epoch.Add(silence)
	m.tick(now)
	a, ok := tickUntilAsk(m, now)
	if !ok || !a.fresh || a.since != 10 {
		t.Fatalf("the ask is %+v, %v", a, ok)
	}
	m.answered(now, false)
	now = now.Add(repeat)
	m.tick(now)
	if a, ok := tickUntilAsk(m, now); !ok || !a.fresh {
		t.Errorf("the repeated ask is %+v, %v", a, ok)
	}
}

func TestHeardIsOfOneHistory(t *testing.T) {
	m, r := synced(t, true)
	m.change(epoch, put("b", "2", 50, 51), false)
	m.require(epoch, 60)
	later := put("c", "3", 3, 4)
	later.History = h2
	m.change(epoch, later, false)
	a, ok := tickUntilAsk(m, epoch)
	if !ok || a.history != h1 {
		t.Fatalf("the ask is %+v, %v", a, ok)
	}
	m.answered(epoch, m.replace(h2, []informer.Object{pod("c", "3", 4)}, 4, false))
	r.expect(t, "replace c/3@4 to 4")
	if a, ok := tickUntilAsk(m, epoch); ok {
		t.Errorf("%+v was asked about a life of etcd that is over", a)
	}
	if len(m.buffer.statements) != 0 {
		t.Error("the buffer holds messages of a life that is over")
	}
	m.change(epoch, put("b", "2", 3, 5), false) // late, of the old life
	if m.replace(h1, nil, 100, false) {
		t.Error("a whole view of the old life was accepted")
	}
	r.expect(t)
}

func TestAnotherUIDIsDeletedByItsOwn(t *testing.T) {
	m, r := synced(t, true)
	// a/1 was deleted, and a/2 was created and deleted too; the answer has only the last deletion.
	m.changes(statement{History: h1, Prev: 10, Revision: 14, Changes: []informer.Change{{Revision: 13, Deleted: true, Name: "a", UID: "2", Object: pod("a", "2", 13)}}})
	r.expect(t, "apply -a/1@13 to 14")
	m.changes(statement{History: h1, Prev: 14, Revision: 16, Changes: []informer.Change{{Revision: 15, Deleted: true, Name: "x", UID: "9"}}})
	r.expect(t, "apply -x/9@15 to 16") // It came and went: a change, although there is nothing to report.
}

func TestRequire(t *testing.T) {
	m, r := synced(t, true)
	m.require(epoch, 9)
	if a, ok := tickUntilAsk(m, epoch); ok {
		t.Fatalf("%+v was asked for existing content", a)
	}
	m.require(epoch, 30)
	if a, ok := tickUntilAsk(m, epoch); !ok || a.minimum != 30 {
		t.Fatalf("the ask is %+v, %v", a, ok)
	}
	m.answered(epoch, m.changes(statement{History: h1, Prev: 10, Revision: 31}))
	r.expect(t, "apply to 31")
}

func TestBufferOverflow(t *testing.T) {
	m, r := synced(t, true)
	for i := range int64(maxBuffered + 100) {
		m.change(epoch, put("b", "2", 100+i, 101+i), false)
	}
	if len(m.buffer.statements) > maxBuffered {
		t.Errorf("the buffer holds %d", len(m.buffer.statements))
	}
	a, ok := tickUntilAsk(m, epoch)
	if want := int64(100 + maxBuffered + 100); !ok || a.minimum != want {
		t.Errorf("the ask is %+v, %v; want all up to %d", a, ok, want)
	}
	r.expect(t)
}

func TestFallback(t *testing.T) {
	m, _ := synced(t, true)
	m.disturbed(epoch)
	now := epoch
	for now.Sub(epoch) < unansweredLimit-time.Second {
		m.tick(now)
		if m.fallback {
			t.Fatalf("HTTP took over after %v", now.Sub(epoch))
		}
		now = now.Add(100 * time.Millisecond)
	}
	for now.Sub(epoch) < unansweredLimit+time.Second {
		m.tick(now)
		now = now.Add(100 * time.Millisecond)
	}
	if !m.fallback {
		t.Fatal("no apiserver answers, and HTTP has not taken over")
	}
	// The bus works again: HTTP is left, but not at the first sign.
	for range 100 {
		if m.tick(now); m.asking {
			break
		}
		now = now.Add(100 * time.Millisecond)
	}
	m.progress(now, h1, 10, 11, 0)
	m.answered(now, false)
	if m.tick(now.Add(returnAfter / 2)); !m.fallback {
		t.Error("HTTP was left at once")
	}
	if m.tick(now.Add(returnAfter + time.Millisecond)); m.fallback {
		t.Error("HTTP was never left")
	}
}

func TestRefusedAsksSeldom(t *testing.T) {
	m, _ := synced(t, true)
	m.disturbed(epoch)
	if _, ok := tickUntilAsk(m, epoch); !ok {
		t.Fatal("nothing was asked")
	}
	m.refused(epoch)
	if !m.fallback {
		t.Error("refused, and HTTP has not taken over")
	}
	asks := 0
	for now := epoch; now.Before(epoch.Add(10 * forbiddenRepeat)); now = now.Add(100 * time.Millisecond) {
		if _, ok := m.tick(now); ok {
			asks++
			m.refused(now)
		}
	}
	if asks == 0 || asks > 10 {
		t.Errorf("asked %d times in %v", asks, 10*forbiddenRepeat)
	}
}

func TestDigest(t *testing.T) {
	m, _ := synced(t, true)
	at := m.digestAt
	m.progressDue = time.Time{}
	m.tick(at)
	a, ok := tickUntilAsk(m, at)
	want := newIndex(0)
	want.put("", "a", "1", 7)
	if !ok || !a.compare || a.digest != want.digest || a.since != 10 {
		t.Fatalf("the ask is %+v, %v", a, ok)
	}
	m.answered(at, false)
	if !m.digestAt.After(at) {
		t.Error("no other digest is planned")
	}
}

// TestWhatIsLackingIsAskedForAgain checks that after a while, an unreadable object is asked for
// again, with the whole view.
func TestWhatIsLackingIsAskedForAgain(t *testing.T) {
	m, r := synced(t, true)
	m.progressDue, m.digestAt = time.Time{}, time.Time{}
	m.lacking(epoch)
	if _, ok := m.tick(epoch.Add(repairAfter / 2)); ok {
		t.Error("asked at once")
	}
	at := m.next()
	if wait := at.Sub(epoch); wait < repairAfter || wait > 2*repairAfter {
		t.Errorf("the next ask is planned in %v", wait)
	}
	m.tick(at)
	a, ok := tickUntilAsk(m, at)
	if !ok || a.delta {
		t.Fatalf("the ask is %+v, %v", a, ok)
	}
	m.answered(at, m.replace(h1, []informer.Object{pod("a", "1", 7), pod("b", "2", 9)}, 10, false))
	r.expect(t, "replace a/1@7 b/2@9 to 10")
	if _, ok := tickUntilAsk(m, at); ok {
		t.Error("asked once more")
	}
}

// curious is a recorder that also records how far etcd is.
type curious struct {
	recorder
	known []int64
}

func (c *curious) Known(revision int64) { c.known = append(c.known, revision) }

// TestTheSinkIsToldHowFarEtcdIs checks that the sink hears of revisions that cannot be shown yet,
// and of no others.
func TestTheSinkIsToldHowFarEtcdIs(t *testing.T) {
	c := &curious{}
	m := newMachine(c, true, func(d time.Duration) time.Duration { return d / 2 }, nothingCounted{})
	m.start(epoch)
	m.change(epoch, put("early", "1", 5, 6), false)
	m.answered(epoch, m.replace(h1, nil, 10, false))
	m.change(epoch, put("next", "1", 10, 11), false)
	m.change(epoch, put("far", "1", 15, 16), false)
	m.progress(epoch, h1, 20, 25, 0)
	m.progress(epoch, h2, 90, 95, 0)
	if fmt.Sprint(c.known) != "[16 20]" {
		t.Errorf("the sink got %v, want 16 and 20", c.known)
	}
}
