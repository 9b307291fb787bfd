package garbage

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
)

// TestEveryKindIsCollected checks that an object of any kind is deleted with its owner, and takes
// its dependents with it.
func TestEveryKindIsCollected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The owner of a cluster-scoped object must be cluster-scoped too.
		objs := []scheme.Object{
			&corev1.ConfigMap{ObjectMeta: meta("default", "root")}, &rbacv1.ClusterRole{ObjectMeta: meta("", "cluster-root")},
		}
		var kinds []*scheme.Kind
		for _, kind := range scheme.New().Kinds() {
			if !kind.Stored() || kind.Kind == "Event" || kind.Kind == "Namespace" {
				continue
			}
			kinds = append(kinds, kind)
			id := kind.Resource
			for _, it := range []struct{ name, parentAPI, parent, of string }{
				{"owner-" + id, "", "", ""},
				{"child-" + id, "v1", "ConfigMap", "root"},
			} {
				obj, namespace := kind.New(), ""
				if kind.Namespaced {
					namespace = "default"
				} else if it.parent != "" {
					it.parentAPI, it.parent, it.of = "rbac.authorization.k8s.io/v1", "ClusterRole", "cluster-root"
				}
				m := meta(namespace, it.name)
				if it.parent != "" {
					m.OwnerReferences = []metav1.OwnerReference{owner(it.parentAPI, it.parent, it.of, true)}
				}
				setMeta(obj, m)
				objs = append(objs, obj)
			}
			grandchild := &corev1.Secret{ObjectMeta: meta("default", "owned-by-"+id, owner(kind.GroupVersion().String(), kind.Kind, "owner-"+id, true))}
			objs = append(objs, grandchild)
		}
		p := start(t, objs...)
		for i, kind := range kinds {
			kinds[i] = p.Table().Kind(kind.GroupVersionKind) // The client has a table of its own.
		}
		exists := func(kind *scheme.Kind, name string) bool {
			namespace := ""
			if kind.Namespaced {
				namespace = "default"
			}
			return p.Do(t.Context(), client.Call{Verb: "get", Kind: kind, Namespace: namespace, Name: name, Options: &metav1.GetOptions{}}, kind.New()) == nil
		}
		secrets := scheme.For[*corev1.Secret](p.Table())
		background := metav1.DeletePropagationBackground
		remove := func(kind *scheme.Kind, name string) {
			namespace := ""
			if kind.Namespaced {
				namespace = "default"
			}
			err := p.Do(t.Context(), client.Call{
				Verb: "delete", Kind: kind, Namespace: namespace, Name: name, Options: &metav1.DeleteOptions{PropagationPolicy: &background},
			}, nil)
			if err != nil {
				t.Fatalf("deleting %s %s: %v", kind.Resource, name, err)
			}
		}
		for _, kind := range kinds {
			if !exists(kind, "owner-"+kind.Resource) || !exists(kind, "child-"+kind.Resource) || !exists(secrets, "owned-by-"+kind.Resource) {
				t.Fatalf("%s or their dependents were collected too early", kind.Resource)
			}
			remove(kind, "owner-"+kind.Resource)
		}
		remove(scheme.For[*corev1.ConfigMap](p.Table()), "root")
		remove(scheme.For[*rbacv1.ClusterRole](p.Table()), "cluster-root")
		settle()
		for _, kind := range kinds {
			if exists(kind, "child-"+kind.Resource) {
				t.Errorf("%s are not deleted with their owner", kind.Resource)
			}
			if exists(secrets, "owned-by-"+kind.Resource) {
				t.Errorf("the dependents of %s are not deleted with them", kind.Resource)
			}
		}
	})
}

func setMeta(obj scheme.Object, m metav1.ObjectMeta) {
	obj.SetNamespace(m.Namespace)
	obj.SetName(m.Name)
	obj.SetUID(m.UID)
	obj.SetOwnerReferences(m.OwnerReferences)
}
