package fence_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/fence"
)

func aFence() fence.Fence {
	return fence.Fence{Namespace: "kube-system", Name: "kube-scheduler", UID: "2a1c", Holder: "host_1", Transitions: 3}
}

func TestText(t *testing.T) {
	for text, f := range map[string]fence.Fence{
		"kube-system/kube-scheduler;uid=2a1c;transitions=3;holder=host_1": aFence(),
		"a/b.c;uid=u;transitions=0;holder=%3B%20%25%0A%C3%A4%2F":          {Namespace: "a", Name: "b.c", UID: "u", Holder: "; %\nä/"},
		"a/b;uid=u%3D;transitions=2147483647;holder=h":                    {},
	} {
		got, err := fence.Parse(text)
		if f == (fence.Fence{}) {
			if err == nil {
				t.Errorf("%s, which is not in canonical form, is parsed as %+v", text, got)
			}
			continue
		}
		if err != nil || got != f || f.String() != text {
			t.Errorf("%s is parsed as %+v, %v; the text of %+v is %s", text, got, err, f, f)
		}
	}
	for _, text := range []string{
		"", ";;;", "a/b", "a/b;uid=u;transitions=1", "a/b;uid=u;transitions=1;holder=h;", "a;uid=u;transitions=1;holder=h",
		"a/b;transitions=1;uid=u;holder=h", "a/b;uid=;transitions=1;holder=h", "a/b;uid=u;transitions=1;holder=",
		"a/b;uid=u;transitions=-1;holder=h", "a/b;uid=u;transitions=01;holder=h", "a/b;uid=u;transitions=+1;holder=h",
		"a/b;uid=u;transitions=2147483648;holder=h", "a/b;uid=u;transitions=;holder=h", "a/b;uid=u;transitions=1;holder=%zz",
		"a/b;uid=u;transitions=1;holder=%41", "a/b;uid=u;transitions=1;holder=a b", "a/b;uid=u;transitions=1;holder=%FF",
		"A/b;uid=u;transitions=1;holder=h", "a/..;uid=u;transitions=1;holder=h", "a/b/c;uid=u;transitions=1;holder=h",
		"/b;uid=u;transitions=1;holder=h", "a/;uid=u;transitions=1;holder=h", " a/b;uid=u;transitions=1;holder=h",
		"a/b;uid=u;transitions=1;holder=" + strings.Repeat("h", fence.MaxHolder+1),
		"a/b;uid=" + strings.Repeat("u", fence.MaxUID+1) + ";transitions=1;holder=h",
		"a/b;uid=u;transitions=1;holder=" + strings.Repeat("h", fence.MaxText),
	} {
		if got, err := fence.Parse(text); err == nil {
			t.Errorf("%q is parsed as %+v", text, got)
		}
	}
}

// TestLargest checks that the largest valid fence can be parsed.
func TestLargest(t *testing.T) {
	f := fence.Fence{
		Namespace: strings.Repeat("n", 63), Name: strings.Repeat("n", 253), Transitions: 1<<31 - 1,
		UID: "\x00" + "", Holder: strings.Repeat("\x01", fence.MaxHolder),
	}
	f.UID = f.UID[:0]
	if f.Check() == nil {
		t.Error("a fence without a UID is valid")
	}
	for range fence.MaxUID {
		f.UID += ";"
	}
	if got, err := fence.Parse(f.String()); err != nil || got != f || len(f.String()) > fence.MaxText {
		t.Errorf("got %v for %d bytes", err, len(f.String()))
	}
}

func TestOf(t *testing.T) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-scheduler", UID: "2a1c"}}
	if f := fence.Of(lease); f.Holder != "" || f.Transitions != 0 || f.Check() == nil {
		t.Errorf("a lease without a holder: %+v", f)
	}
	holder, transitions := "host_1", int32(3)
	lease.Spec.HolderIdentity, lease.Spec.LeaseTransitions = &holder, &transitions
	if f := fence.Of(lease); f != aFence() || f.Check() != nil {
		t.Errorf("%+v, %v", f, f.Check())
	}
}

func TestCarrying(t *testing.T) {
	plain := t.Context()
	if f, ok := fence.From(plain); ok {
		t.Errorf("a context carries %+v", f)
	}
	if fence.Without(plain) != plain {
		t.Error("a context without a fence was wrapped")
	}
	refused := 0
	ctx, cancel := context.WithCancel(fence.With(plain, aFence(), func() { refused++ }))
	defer cancel()
	if f, ok := fence.From(ctx); !ok || f != aFence() {
		t.Errorf("the context carries %+v, %v", f, ok)
	}
	if f, ok := fence.From(context.WithoutCancel(ctx)); !ok || f != aFence() {
		t.Errorf("the context without cancellation carries %+v, %v", f, ok)
	}
	if f, ok := fence.From(fence.Without(ctx)); ok {
		t.Errorf("without a fence: %+v", f)
	}
	lost := fmt.Errorf("writing: %w", fence.Lost(aFence(), nil))
	fence.Refused(ctx, lost)
	for _, err := range []error{nil, errors.New("no"), apierrors.NewConflict(coordinationv1.Resource("leases"), "a", errors.New("modified"))} {
		fence.Refused(ctx, err)
	}
	fence.Refused(fence.Without(ctx), lost)
	fence.Refused(fence.With(ctx, aFence(), nil), lost)
	fence.Refused(plain, lost)
	if refused != 1 {
		t.Errorf("notified of %d refusals", refused)
	}
}

func TestLost(t *testing.T) {
	is := func(change func(*fence.Fence)) *fence.Fence {
		f := aFence()
		change(&f)
		return &f
	}
	for want, now := range map[string]*fence.Fence{
		"that lease is gone":                             nil,
		`"host_2" holds it now`:                          is(func(f *fence.Fence) { f.Holder, f.Transitions = "host_2", 4 }),
		"no one holds it now":                            is(func(f *fence.Fence) { f.Holder = "" }),
		`another of its name is held by "host_1"`:        is(func(f *fence.Fence) { f.UID = "other" }),
		`"host_1" holds it in another term now (leaseTr`: is(func(f *fence.Fence) { f.Transitions = 5 }),
	} {
		err := fence.Lost(aFence(), now)
		var status apierrors.APIStatus
		if !errors.As(err, &status) || status.Status().Code != http.StatusConflict || !apierrors.IsConflict(err) || !fence.IsLost(err) {
			t.Errorf("%v is not a FenceLost conflict", err)
			continue
		}
		message := status.Status().Message
		if !strings.Contains(message, want) || !strings.Contains(message, "the write was not done") ||
			!strings.Contains(message, `kube-system/kube-scheduler in the term of "host_1" (leaseTransitions 3)`) {
			t.Errorf("the message is %s\nwant %s", message, want)
		}
	}
	if fence.IsLost(nil) || fence.IsLost(apierrors.NewConflict(coordinationv1.Resource("leases"), "a", errors.New("modified"))) {
		t.Error("IsLost accepts another error")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(aFence().String())
	f.Add("a/b;uid=%3B;transitions=0;holder=%25")
	f.Add("a/b;uid=u;transitions=1;holder=%41")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := fence.Parse(text)
		if err != nil {
			if got != (fence.Fence{}) {
				t.Errorf("got an error and %+v", got)
			}
			return
		}
		if got.String() != text || got.Check() != nil {
			t.Errorf("%q is parsed as %+v, whose text is %q; %v", text, got, got, got.Check())
		}
		for _, b := range []byte(text) {
			if b <= ' ' || b >= 0x7f {
				t.Errorf("%q does not fit a header", text)
			}
		}
	})
}
