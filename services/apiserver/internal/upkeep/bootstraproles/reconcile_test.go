package bootstraproles_test

import (
	"log/slog"
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
	"github.com/garboard/garboard/services/apiserver/internal/registry/registrytest"
	"github.com/garboard/garboard/services/apiserver/internal/upkeep/bootstraproles"
)

// configOf returns the configuration of the roles in a world.
func configOf(w *registrytest.World) bootstraproles.Config {
	return bootstraproles.Config{Table: w.Table, Registry: w.Registry, Logger: slog.New(slog.DiscardHandler)}
}

func get[T scheme.Object](t *testing.T, cfg bootstraproles.Config, namespace, name string) T {
	t.Helper()
	obj, err := cfg.Registry.Resource(scheme.For[T](cfg.Table)).Get(t.Context(), namespace, name)
	if err != nil {
		t.Fatal(err)
	}
	return obj.(T)
}

func change[T scheme.Object](t *testing.T, cfg bootstraproles.Config, namespace, name string, change func(T)) {
	t.Helper()
	_, err := cfg.Registry.Resource(scheme.For[T](cfg.Table)).Update(t.Context(), namespace, name, func(current scheme.Object) (scheme.Object, error) {
		obj := current.DeepCopyObject().(T)
		change(obj)
		return obj, nil
	}, registry.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// TestReconcile: missing objects are created, additions stay, and objects that opted out are left
// alone.
func TestReconcile(t *testing.T) {
	w := registrytest.New(t)
	cfg := configOf(w)
	// Several apiservers start at once.
	group, ctx := errgroup.WithContext(t.Context())
	for range 3 {
		other := configOf(w.Another())
		group.Go(func() error { return bootstraproles.Reconcile(ctx, other, bootstraproles.Default()) })
	}
	group.Go(func() error { return bootstraproles.Reconcile(ctx, cfg, bootstraproles.Default()) })
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	reconcile := func() {
		t.Helper()
		if err := bootstraproles.Reconcile(t.Context(), cfg, bootstraproles.Default()); err != nil {
			t.Fatal(err)
		}
	}
	// A second run writes nothing.
	before := get[*rbacv1.ClusterRole](t, cfg, "", "system:kube-scheduler")
	reconcile()
	if after := get[*rbacv1.ClusterRole](t, cfg, "", "system:kube-scheduler"); after.ResourceVersion != before.ResourceVersion {
		t.Error("an unchanged role was written again")
	}

	extra := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{"x.y"}, Resources: []string{"things"}}
	change(t, cfg, "", "system:kube-scheduler", func(role *rbacv1.ClusterRole) {
		role.Rules = append(role.Rules[1:], extra) // without events
		role.Labels = map[string]string{"mine": "yes"}
	})
	change(t, cfg, "", "system:kube-dns", func(role *rbacv1.ClusterRole) {
		role.Rules = nil
		role.Annotations[rbacv1.AutoUpdateAnnotationKey] = "false"
	})
	change(t, cfg, "", "view", func(role *rbacv1.ClusterRole) {
		role.AggregationRule.ClusterRoleSelectors[0] = metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		role.Rules = []rbacv1.PolicyRule{extra}
	})
	change(t, cfg, "", "system:discovery", func(binding *rbacv1.ClusterRoleBinding) {
		binding.Subjects = []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "u"}}
	})
	change(t, cfg, "", "system:basic-user", func(binding *rbacv1.ClusterRoleBinding) {
		binding.Subjects = nil
		binding.Annotations = map[string]string{rbacv1.AutoUpdateAnnotationKey: "false"}
	})
	bindings := cfg.Registry.Resource(scheme.For[*rbacv1.ClusterRoleBinding](cfg.Table))
	for name, update := range map[string]string{"system:volume-scheduler": "true", "system:kube-dns": "false"} {
		if _, _, err := bindings.Delete(t.Context(), "", name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		other := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: update}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		}
		if _, err := bindings.Create(t.Context(), "", other, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	roles := cfg.Registry.Resource(scheme.For[*rbacv1.Role](cfg.Table))
	if _, _, err := roles.Delete(t.Context(), "kube-system", "system:controller:token-cleaner", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	reconcile()

	scheduler := get[*rbacv1.ClusterRole](t, cfg, "", "system:kube-scheduler")
	has := func(rules []rbacv1.PolicyRule, verb, resource string) bool {
		return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
			return slices.Contains(r.Verbs, verb) && slices.Contains(r.Resources, resource)
		})
	}
	if !has(scheduler.Rules, "get", "things") || !has(scheduler.Rules, "create", "events") || !has(scheduler.Rules, "patch", "events") ||
		scheduler.Labels["mine"] != "yes" || scheduler.Labels["kubernetes.io/bootstrapping"] != "rbac-defaults" {
		t.Errorf("a role with changed rules is now %+v", scheduler)
	}
	if dns := get[*rbacv1.ClusterRole](t, cfg, "", "system:kube-dns"); len(dns.Rules) != 0 {
		t.Error("a role that opted out was changed")
	}
	if view := get[*rbacv1.ClusterRole](t, cfg, "", "view"); len(view.AggregationRule.ClusterRoleSelectors) != 2 || !has(view.Rules, "get", "things") {
		t.Errorf("an aggregated role is now %+v", view)
	}
	if discovery := get[*rbacv1.ClusterRoleBinding](t, cfg, "", "system:discovery"); len(discovery.Subjects) != 2 {
		t.Errorf("a binding's subjects are now %v", discovery.Subjects)
	}
	if basic := get[*rbacv1.ClusterRoleBinding](t, cfg, "", "system:basic-user"); len(basic.Subjects) != 0 {
		t.Error("a binding that opted out was changed")
	}
	if volumes := get[*rbacv1.ClusterRoleBinding](t, cfg, "", "system:volume-scheduler"); volumes.RoleRef.Name != "system:volume-scheduler" || len(volumes.Subjects) != 1 {
		t.Errorf("a binding to another role is now %+v", volumes)
	}
	if dns := get[*rbacv1.ClusterRoleBinding](t, cfg, "", "system:kube-dns"); dns.RoleRef.Name != "view" {
		t.Error("a binding to another role that opted out was replaced")
	}
	get[*rbacv1.Role](t, cfg, "kube-system", "system:controller:token-cleaner")
}
