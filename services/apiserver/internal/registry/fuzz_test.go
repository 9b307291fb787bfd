package registry_test

import (
	"encoding/json"
	"errors"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/patch"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
	"github.com/garboard/garboard/services/apiserver/internal/registry/managedfields"
)

// fuzzed creates one object of each fuzzed kind, all named x.
func fuzzed(w *world) []scheme.Object {
	immutable := true
	return []scheme.Object{
		create(w, "default", newPod("x")), create(w, "default", newDeployment("x")), create(w, "default", newService("x")),
		create(w, "default", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Data: map[string][]byte{"a": []byte("1")}, Immutable: &immutable}),
		create(w, "", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: corev1.NodeSpec{PodCIDR: "10.0.0.0/24", ProviderID: "p://x"}}),
	}
}

// FuzzPatchedObject applies patches of the three kinds to a pod, a deployment, a service, an
// immutable secret and a node, as a request would. It checks that immutable fields and the system's
// fields stay.
func FuzzPatchedObject(f *testing.F) {
	for i, body := range []string{
		`{"metadata":{"uid":"x","creationTimestamp":null,"generation":7}}`,
		`[{"op":"replace","path":"/metadata/uid","value":"x"}]`,
		`[{"op":"remove","path":"/metadata"}]`,
		`[{"op":"copy","from":"/metadata","path":"/spec"}]`,
		`{"metadata":null}`,
		`{"spec":null}`,
		`{"$patch":"replace","metadata":{"name":"x"}}`,
		`{"$patch":"delete"}`,
		`{"spec":{"containers":[{"name":"c","image":"other","$patch":"replace"}]}}`,
		`{"spec":{"selector":{"matchLabels":{"app":"y"}},"template":{"metadata":{"labels":{"app":"y"}}}}}`,
		`{"spec":{"clusterIP":"10.96.0.77"}}`,
		`{"data":{"a":"eA=="},"immutable":false}`,
		`{"metadata":{"deletionTimestamp":"2020-01-01T00:00:00Z","managedFields":[{}],"ownerReferences":[{}]}}`,
		`{"apiVersion":"v1","kind":"Pod"}`,
	} {
		for kind := range uint8(3) {
			f.Add(kind, uint8(i%5), i%2 == 0, body)
		}
	}
	w := newWorld(f)
	objects := fuzzed(w)
	patcher, err := patch.New(w.Table)
	if err != nil {
		f.Fatal(err)
	}
	pods := scheme.For[*corev1.Pod](w.Table)
	f.Fuzz(func(t *testing.T, form, which uint8, status bool, body string) {
		parsed, err := patcher.Parse(patch.Types(pods)[int(form)%3], []byte(body), metav1.FieldValidationIgnore)
		if err != nil {
			return
		}
		before, after, _ := patched(t, w, objects[int(which)%len(objects)], status, parsed, body)
		if after != nil {
			checkKept(t, body, before, after)
		}
	})
}

// patched returns an object before and after an attempted patch of it, or of its status. after is
// nil if the patch was refused, which must be an API error and not an internal one.
func patched(t *testing.T, w *world, object scheme.Object, status bool, parsed *patch.Patch, body string) (before, after scheme.Object, subresource string) {
	t.Helper()
	kind := w.Table.KindOf(object)
	if status && kind.HasSubresource("status") {
		subresource = "status"
	}
	after, err := w.Resource(kind).Update(t.Context(), object.GetNamespace(), object.GetName(), func(current scheme.Object) (scheme.Object, error) {
		before = current.DeepCopyObject().(scheme.Object)
		patched, _, err := parsed.Apply(current, kind.New(), nil)
		if err != nil {
			return nil, err
		}
		return patched.(scheme.Object), nil
	}, registry.UpdateOptions{Subresource: subresource, DryRun: true})
	if err != nil {
		var answer apierrors.APIStatus
		if !errors.As(err, &answer) || answer.Status().Code >= 500 {
			t.Errorf("%s of a %s: %v", body, kind.Kind, err)
		}
		return before, nil, subresource
	}
	return before, after, subresource
}

// checkKept checks that an accepted update left the fields that it may not change.
func checkKept(t *testing.T, body string, before, after scheme.Object) {
	t.Helper()
	created := before.GetCreationTimestamp()
	switch {
	case after.GetUID() != before.GetUID(), !created.Equal(new(after.GetCreationTimestamp())),
		after.GetName() != before.GetName(), after.GetNamespace() != before.GetNamespace(),
		after.GetDeletionTimestamp() != nil, after.GetGeneration() < before.GetGeneration(),
		after.GetGeneration() > before.GetGeneration()+1, managedfields.Check(after.GetManagedFields()) != nil:
		t.Errorf("%s made\n%+v of\n%+v", body, after, before)
	}
	same := func(what string, was, is any) {
		t.Helper()
		old, err := json.Marshal(was)
		if err != nil {
			t.Fatal(err)
		}
		now, err := json.Marshal(is)
		if err != nil {
			t.Fatal(err)
		}
		if string(old) != string(now) {
			t.Errorf("%s changed the %s from %s to %s", body, what, old, now)
		}
	}
	switch is := after.(type) {
	case *corev1.Pod:
		was := before.(*corev1.Pod)
		same("node", was.Spec.NodeName, is.Spec.NodeName)
		same("volumes", was.Spec.Volumes, is.Spec.Volumes)
		same("number of containers", len(was.Spec.Containers), len(is.Spec.Containers))
		same("restart policy", was.Spec.RestartPolicy, is.Spec.RestartPolicy)
	case *appsv1.Deployment:
		same("selector", before.(*appsv1.Deployment).Spec.Selector, is.Spec.Selector)
	case *corev1.Service:
		if was := before.(*corev1.Service); was.Spec.Type == is.Spec.Type {
			same("address", was.Spec.ClusterIP, is.Spec.ClusterIP)
		}
	case *corev1.Secret:
		was := before.(*corev1.Secret)
		same("data", was.Data, is.Data)
		same("type", was.Type, is.Type)
		same("immutability", was.Immutable, is.Immutable)
	case *corev1.Node:
		was := before.(*corev1.Node)
		same("provider", was.Spec.ProviderID, is.Spec.ProviderID)
		same("range of addresses", was.Spec.PodCIDR, is.Spec.PodCIDR)
	}
}
