package objectcache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/scheme"
)

func podWith(uid string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: uid, UID: types.UID(uid)}}
}

func secret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "password"}, Data: map[string][]byte{"word": []byte("hush")}}
}

func service() *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "db"}, Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.7"}}
}

func generic(code int) error {
	return apierrors.NewGenericServerResponse(code, "get", corev1.Resource("secrets"), "password", "<html>", 0, true)
}

func TestAway(t *testing.T) {
	resource := corev1.Resource("secrets")
	for _, c := range []struct {
		err  error
		away bool
	}{
		{nil, false},
		{errors.New("dial tcp 127.0.0.1:6443: connect: connection refused"), true},
		{fmt.Errorf("reading: %w", context.DeadlineExceeded), true},
		{apierrors.NewInternalError(errors.New("etcd")), true},
		{apierrors.NewServiceUnavailable("starting"), true},
		{apierrors.NewTimeoutError("slow", 1), true},
		{apierrors.NewServerTimeout(resource, "get", 1), true},
		{apierrors.NewTooManyRequests("busy", 1), true},
		{generic(http.StatusBadGateway), true},
		{generic(http.StatusNotFound), true}, // a gateway's page, not an apiserver's answer
		{apierrors.NewNotFound(resource, "password"), false},
		{fmt.Errorf("reading: %w", apierrors.NewNotFound(resource, "password")), false},
		{apierrors.NewForbidden(resource, "password", errors.New("no")), false},
		{apierrors.NewUnauthorized("who?"), false},
		{apierrors.NewBadRequest("what?"), false},
	} {
		if got := Away(c.err); got != c.away {
			t.Errorf("%v: away is %v, want %v", c.err, got, c.away)
		}
	}
}

// outage is a reader of an API that fails as failing says, if it is set.
type outage struct {
	t       *testing.T
	api     *fake.Client
	reader  *Reader
	failing func(ctx context.Context) error
}

// slow is a client whose calls last until the caller gives up.
type slow struct {
	client.Interface
	o *outage
}

func (s slow) Do(ctx context.Context, call client.Call, into runtime.Object) error {
	if s.o.failing != nil {
		if err := s.o.failing(ctx); err != nil {
			return err
		}
	}
	return s.Interface.Do(ctx, call, into)
}

func newOutage(t *testing.T) *outage {
	o := &outage{t: t, api: fake.New(scheme.New(), settings("a", "slow"), secret(), service())}
	o.reader = New(slow{o.api, o}, slog.New(slog.DiscardHandler))
	return o
}

// read reads everything a pod may refer to, and returns the first fault.
func (o *outage) read(uid string) error {
	ctx := For(o.t.Context(), podWith(uid))
	cm, err := o.reader.ConfigMap(ctx, "a", "settings")
	if err != nil {
		return err
	}
	secret, err := o.reader.Secret(ctx, "a", "password")
	if err != nil {
		return err
	}
	services, err := o.reader.Services(ctx, "a")
	if err != nil {
		return err
	}
	if _, err := o.reader.ConfigMap(ctx, "a", "optional"); !apierrors.IsNotFound(err) {
		return fmt.Errorf("a missing object: %w", err)
	}
	if cm.Data["mode"] == "" || string(secret.Data["word"]) != "hush" || len(services) != 1 || services[0].Spec.ClusterIP != "10.0.0.7" {
		return fmt.Errorf("read %v, %v, %v", cm, secret, services)
	}
	return nil
}

// hang never returns before ctx ends.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func fail(err error) func(context.Context) error { return func(context.Context) error { return err } }

// TestWhatAPodReadIsKept: a pod keeps using for hours what was read for it, whatever kind of outage
// the apiserver has, and a read takes a bounded time.
func TestWhatAPodReadIsKept(t *testing.T) {
	for name, failing := range map[string]func(context.Context) error{
		"refused":     fail(errors.New("connection refused")),
		"silent":      hang,
		"starting":    fail(apierrors.NewServiceUnavailable("starting")),
		"overloaded":  fail(apierrors.NewTooManyRequests("busy", 1)),
		"broken":      fail(apierrors.NewInternalError(errors.New("etcd"))),
		"bad gateway": fail(generic(http.StatusBadGateway)),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOutage(t)
				if err := o.read("pod-1"); err != nil {
					t.Fatal(err)
				}
				o.failing = failing
				for range 100 {
					time.Sleep(3 * time.Minute)
					began := time.Now()
					if err := o.read("pod-1"); err != nil {
						t.Fatalf("after %v: %v", time.Since(began), err)
					}
					if took := time.Since(began); took > patience {
						t.Fatalf("the reads of a pod took %v, want %v at most", took, patience)
					}
				}
			})
		})
	}
}

// TestOnlyItsOwn: a pod created while the apiserver is unavailable gets nothing that was read
// before its creation, and the removal of another pod drops nothing of its own.
func TestOnlyItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t)
		for _, uid := range []string{"pod-1", "pod-2"} {
			if err := o.read(uid); err != nil {
				t.Fatal(err)
			}
		}
		o.failing = hang
		o.reader.Forget("a") // pod-3 is new
		began := time.Now()
		if err := o.read("pod-3"); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != longest {
			t.Errorf("a new pod read %v after %v, want an error after %v", err, time.Since(began), longest)
		}
		if _, err := o.reader.ConfigMap(t.Context(), "a", "settings"); err == nil {
			t.Error("a read for no pod was answered")
		}
		o.reader.Drop("pod-1")
		if err := o.read("pod-2"); err != nil {
			t.Errorf("after another pod left: %v", err)
		}
		if err := o.read("pod-1"); err == nil {
			t.Error("a pod that is gone still has kept answers")
		}
		o.reader.Drop("pod-2")
		if len(o.reader.kept.last) != 0 {
			t.Errorf("kept for no pod: %v", o.reader.kept.last)
		}
	})
}

// TestAnswersTakeItsPlace: an answer of the apiserver is used whenever there is one: new values, a
// missing object, a forbidden read.
func TestAnswersTakeItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t)
		ctx := For(t.Context(), podWith("pod-1"))
		want := func(want string) {
			t.Helper()
			time.Sleep(time.Minute)
			cm, err := o.reader.ConfigMap(ctx, "a", "settings")
			got := fmt.Sprint(err)
			if err == nil {
				got = "mode " + cm.Data["mode"]
			}
			if !strings.Contains(got, want) {
				t.Errorf("read %q, want %q", got, want)
			}
		}
		refused := fail(errors.New("connection refused"))
		want("mode slow")
		change(t, o.api, "a")
		want("mode fast")
		o.failing = refused
		want("mode fast")
		o.failing = fail(apierrors.NewForbidden(corev1.Resource("configmaps"), "settings", errors.New("no")))
		want("forbidden")
		o.failing = refused
		want("connection refused") // a forbidden object is not used again
		o.failing = nil
		want("mode fast")
		o.api.Remove(settings("a", "fast"))
		want("not found")
		o.failing = refused
		want("not found") // the last answer was that it does not exist
	})
}

// TestOneObjectFails: the failure of one object does not prevent fresh reads of others.
func TestOneObjectFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutage(t)
		if err := o.read("pod-1"); err != nil {
			t.Fatal(err)
		}
		o.api.Fail(func(call client.Call) error {
			if call.Kind.Resource == "secrets" {
				return apierrors.NewInternalError(errors.New("it cannot be decrypted"))
			}
			return nil
		})
		time.Sleep(time.Minute)
		change(t, o.api, "a")
		ctx := For(t.Context(), podWith("pod-1"))
		if secret, err := o.reader.Secret(ctx, "a", "password"); err != nil || string(secret.Data["word"]) != "hush" {
			t.Errorf("read %v, %v", secret, err)
		}
		if cm, err := o.reader.ConfigMap(ctx, "a", "settings"); err != nil || cm.Data["mode"] != "fast" {
			t.Errorf("read %v, %v", cm, err)
		}
	})
}

// TestGivenUpByTheCaller: a step that is cut short is not an outage.
func TestGivenUpByTheCaller(t *testing.T) {
	o := newOutage(t)
	if err := o.read("pod-1"); err != nil {
		t.Fatal(err)
	}
	o.reader.Forget("a")
	o.failing = hang
	ctx, cancel := context.WithCancel(For(t.Context(), podWith("pod-1")))
	cancel()
	if _, err := o.reader.Secret(ctx, "a", "password"); !errors.Is(err, context.Canceled) || o.reader.kept.away {
		t.Errorf("read %v, away is %v", err, o.reader.kept.away)
	}
}

// TestOlderAnswerComesLate: the answer to a read that began earlier does not replace a newer one.
func TestOlderAnswerComesLate(t *testing.T) {
	k := kept{last: map[key]*last{}}
	what, now := key{"configmap", "a", "settings"}, time.Now()
	k.keep(what, answer{value: "new", began: now.Add(time.Second)}, "pod-2")
	k.keep(what, answer{value: "old", began: now}, "pod-1")
	for _, pod := range []string{"pod-1", "pod-2"} {
		if a, held := k.of(what, pod); !held || a.value != "new" {
			t.Errorf("%s has %v (%v)", pod, a.value, held)
		}
	}
}
