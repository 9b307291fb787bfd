package busauth_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/garboard/garboard/libs/bus/callout"
	"github.com/garboard/garboard/services/apiserver/internal/authn"
	"github.com/garboard/garboard/services/apiserver/internal/authz"
)

// counted counts what is asked of roles.
type counted struct {
	roles
	asked *atomic.Int64
}

func (c counted) Authorize(ctx context.Context, user authn.User, want authz.Attributes) (authz.Decision, string, error) {
	c.asked.Add(1)
	return c.roles.Authorize(ctx, user, want)
}

// TestWhoeverGrantsMuchTakesNothingAway: whoever rules a namespace may bind a role of it to
// anybody. That must not keep anybody from connecting, nor cost him his other rights.
func TestWhoeverGrantsMuchTakesNothingAway(t *testing.T) {
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
