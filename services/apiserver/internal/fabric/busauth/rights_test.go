package busauth_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/bus/callout"
	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/scheme"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/busauth"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

// counted counts the calls of the authorizer.
type counted struct {
	roles
	asked *atomic.Int64
}

func (c counted) Authorize(ctx context.Context, user authn.User, want authz.Attributes) (authz.Decision, string, error) {
	c.asked.Add(1)
	return c.roles.Authorize(ctx, user, want)
}

// TestLargeGrantsDoNotReduceOtherRights: the owner of a namespace may bind a role of it to any
// user. That must not keep the user from connecting, nor cost it its other rights.
func TestLargeGrantsDoNotReduceOtherRights(t *testing.T) {
	var names []string
	for i := range 20_000 {
		names = append(names, fmt.Sprintf("name-%0100d", i))
	}
	honest := func() map[string][]rbacv1.PolicyRule {
		return map[string][]rbacv1.PolicyRule{
			"":       {rule("list,watch", "services"), rule("list,watch", "nodes", "n1", "n2")},
			"mine":   {rule("list,watch", "configmaps"), rule("list,watch", "secrets", "s")},
			"others": {rule("list,watch", "statefulsets"), rule("list,watch", "leases", "a", "b")},
		}
	}
	granted := roles{"jane": honest(), "victim": honest()}
	granted["victim"]["hostile"] = []rbacv1.PolicyRule{rule("list,watch", "*", names...)}
	var asked atomic.Int64
	d := deciderBy(t, granted, counted{granted, &asked}, 0)
	grants := map[string][]string{}
	for name := range granted {
		asked.Store(0)
		grant, err := d.Decide(t.Context(), callout.Credentials{Inbox: "me", Token: name})
		if err != nil {
			t.Fatal(err)
		}
		grants[name] = grant.Subscribe
		bytes := 0
		for _, subject := range grant.Subscribe {
			bytes += len(subject)
		}
		if n := asked.Load(); n > 2000 || bytes > 256<<10 {
			t.Errorf("%s: %d questions, %d subjects of %d bytes", name, n, len(grant.Subscribe), bytes)
		}
	}
	for _, subject := range grants["jane"] {
		if !slices.Contains(grants["victim"], subject) {
			t.Errorf("the victim may not subscribe to %s any more", subject)
		}
	}
	if len(grants["victim"]) == len(grants["jane"]) {
		t.Error("nothing was granted")
	}
}

// TestDeletedAccount checks that a client whose service account is gone is refused before its
// connection ends.
func TestDeletedAccount(t *testing.T) {
	accounts := map[string]types.UID{"here": "1", "made-again": "2"}
	d := busauth.New(busauth.Config{
		Authenticator: authn.New(authn.Config{}), Authorizer: authz.Masters{}, Table: scheme.New(), Logger: slog.New(slog.DiscardHandler),
		Accounts: func(_ context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
			if name == "unknown" {
				return nil, errors.New("etcd does not answer")
			}
			uid, ok := accounts[name]
			if !ok || namespace != "ns" {
				return nil, apierrors.NewNotFound(corev1.Resource("serviceaccounts"), name)
			}
			return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{UID: uid}}, nil
		},
	})
	for name, gone := range map[string]bool{
		"system:serviceaccount:ns:here": false, "system:serviceaccount:ns:made-again": true, "system:serviceaccount:ns:gone": true,
		"system:serviceaccount:other:here": true, "system:serviceaccount:ns:unknown": false, "jane": false,
	} {
		identity, err := busauth.Identity(authn.Connection{User: authn.User{Name: name, UID: "1", Groups: []string{authn.GroupMasters}}})
		if err != nil {
			t.Fatal(err)
		}
		err = d.Authorize(t.Context(), subject.Client{Inbox: "me", Identity: identity}, &watchv1.Ask{Resource: "pods"})
		if (err != nil) != gone {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestVerbsOfSeveralRules: list and watch may come from two rules, one of them granted everywhere;
// a rule for the name "" allows no other name.
func TestVerbsOfSeveralRules(t *testing.T) {
	d := decider(t, roles{"u": {
		"":  {rule("list", "secrets"), rule("watch", "configmaps", "c")},
		"a": {rule("watch", "secrets", "s"), rule("list", "configmaps", ""), rule("watch", "pods", "p"), rule("list", "pods", "")},
		"b": {rule("watch", "secrets"), rule("list", "configmaps")},
	}}, 0)
	grant, err := d.Decide(t.Context(), callout.Credentials{Inbox: "me", Token: "u"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"gb.watch.core.configmaps.*.b.c", "gb.watch.core.configmaps.~progress",
		"gb.watch.core.secrets.*.a.s", "gb.watch.core.secrets.*.b.>", "gb.watch.core.secrets.~progress",
	}
	got := slices.Sorted(slices.Values(grant.Subscribe[3:]))
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
