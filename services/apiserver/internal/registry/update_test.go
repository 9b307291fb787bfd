package registry_test

import (
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/autoscaling/scale"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
	"github.com/garboard/garboard/services/apiserver/internal/registry/ownerreferences"
)

func newDeployment(name string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx:1.14.2"}}},
			},
		},
	}
}

func newConfigMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"a": "b"}}
}

func TestCreateRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	create(w, "default", newConfigMap("taken"))
	for _, tc := range []struct {
		name, namespace string
		obj             func() scheme.Object
		is              func(error) bool
		want            string
	}{
		{"taken", "default", func() scheme.Object { return newConfigMap("taken") }, apierrors.IsAlreadyExists, `configmaps "taken" already exists`},
		{"unknown namespace", "nowhere", func() scheme.Object { return newConfigMap("x") }, apierrors.IsNotFound, `namespaces "nowhere" not found`},
		{"no name", "default", func() scheme.Object { return newConfigMap("") }, apierrors.IsInvalid, `ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required`},
		{"bad name", "default", func() scheme.Object { return newConfigMap("A_b") }, apierrors.IsInvalid, `ConfigMap "A_b" is invalid: metadata.name: Invalid value: "A_b": a lowercase RFC 1123 subdomain`},
		{"other namespace", "default", func() scheme.Object { c := newConfigMap("x"); c.Namespace = "other"; return c }, apierrors.IsBadRequest, "the namespace of the provided object does not match the namespace sent on the request"},
		{"with resourceVersion", "default", func() scheme.Object { c := newConfigMap("x"); c.ResourceVersion = "5"; return c }, func(error) bool { return true }, "resourceVersion should not be set on objects to be created"},
		{"another type", "default", func() scheme.Object { return &corev1.Secret{} }, apierrors.IsBadRequest, "a *v1.Secret was sent where a ConfigMap is expected"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := resource[*corev1.ConfigMap](w).Create(t.Context(), tc.namespace, tc.obj(), metav1.CreateOptions{})
			if err == nil || !tc.is(err) || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}

func TestGenerateName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := newConfigMap("")
	c.GenerateName = strings.Repeat("x", 70)
	got := create(w, "default", c)
	if len(got.Name) != 63 || !strings.HasPrefix(got.Name, strings.Repeat("x", 58)) {
		t.Errorf("the generated name is %q", got.Name)
	}
}

func TestOptimisticLocking(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := create(w, "default", newConfigMap("c"))
	second, err := update(w, "default", "c", "", func(c *corev1.ConfigMap) { c.Data["a"] = "2" })
	if err != nil || second.ResourceVersion == first.ResourceVersion {
		t.Fatalf("updating: %v", err)
	}
	_, err = update(w, "default", "c", "", func(c *corev1.ConfigMap) { c.ResourceVersion = first.ResourceVersion })
	want := `Operation cannot be fulfilled on configmaps "c": the object has been modified; please apply your changes to the latest version and try again`
	if !apierrors.IsConflict(err) || err.Error() != want {
		t.Errorf("a stale update: %v", err)
	}
	same, err := update(w, "default", "c", "", func(c *corev1.ConfigMap) { c.ResourceVersion = "" })
	if err != nil || same.ResourceVersion != second.ResourceVersion {
		t.Errorf("an update of nothing wrote: %v, %s after %s", err, same.ResourceVersion, second.ResourceVersion)
	}
	_, err = update(w, "default", "c", "", func(c *corev1.ConfigMap) { c.UID = "other" })
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "Precondition failed: UID in precondition: other") {
		t.Errorf("an update of another object: %v", err)
	}
	if _, err = update(w, "default", "c", "", func(c *corev1.ConfigMap) { c.Name = "d" }); !apierrors.IsBadRequest(err) {
		t.Errorf("an update of another name: %v", err)
	}
	if _, err = update(w, "default", "gone", "", func(*corev1.ConfigMap) {}); !apierrors.IsNotFound(err) {
		t.Errorf("an update of a missing object: %v", err)
	}
	if _, err = update(w, "default", "c", "", func(c *corev1.ConfigMap) { c.ResourceVersion = "x" }); !apierrors.IsInvalid(err) {
		t.Errorf("an update with a malformed version: %v", err)
	}
}

func TestUpdatesKeepSystemFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := create(w, "default", newConfigMap("c"))
	after, err := update(w, "default", "c", "", func(c *corev1.ConfigMap) {
		c.CreationTimestamp, c.UID, c.Generation, c.Data["a"] = metav1.Unix(1, 0), "", 9, "z"
	})
	if err != nil || !after.CreationTimestamp.Equal(&before.CreationTimestamp) || after.UID != before.UID || after.Generation != 0 ||
		after.DeletionTimestamp != nil || after.Data["a"] != "z" {
		t.Errorf("updated: %v, %+v", err, after)
	}
	// An update deletes nothing, and a deletion in progress stays.
	_, err = update(w, "default", "c", "", func(c *corev1.ConfigMap) { c.DeletionTimestamp = new(metav1.Now()) })
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "metadata.deletionTimestamp: Invalid value: ") {
		t.Errorf("deleted by an update: %v", err)
	}
	_, err = update(w, "default", "c", "", func(c *corev1.ConfigMap) { c.DeletionGracePeriodSeconds = new(int64(3)) })
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "metadata.deletionGracePeriodSeconds: Invalid value: 3: field is immutable") {
		t.Errorf("deleted gracefully by an update: %v", err)
	}
	if _, err := update(w, "default", "c", "", func(c *corev1.ConfigMap) { c.Finalizers = []string{"example.com/hold"} }); err != nil {
		t.Fatal(err)
	}
	deleted, _, err := resource[*corev1.ConfigMap](w).Delete(t.Context(), "default", "c", metav1.DeleteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	after, err = update(w, "default", "c", "", func(c *corev1.ConfigMap) { c.DeletionTimestamp, c.DeletionGracePeriodSeconds = nil, nil })
	if err != nil || !after.DeletionTimestamp.Equal(deleted.GetDeletionTimestamp()) || after.DeletionGracePeriodSeconds == nil {
		t.Errorf("an update undid the deletion: %v, %+v", err, after)
	}
}

// TestRepeatedOwners checks that an owner that is named twice is kept once, and that the client is
// warned.
func TestRepeatedOwners(t *testing.T) {
	a := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "a"}
	b, other := a, a
	b.UID, other.Controller = "b", new(true)
	for _, c := range []struct {
		name        string
		given, kept []metav1.OwnerReference
		warns       string
	}{
		{name: "none"},
		{"one", []metav1.OwnerReference{a}, []metav1.OwnerReference{a}, ""},
		{"two", []metav1.OwnerReference{a, b}, []metav1.OwnerReference{a, b}, ""},
		{"one twice", []metav1.OwnerReference{a, b, a}, []metav1.OwnerReference{a, b}, "duplicate UID(s) observed: a"},
		{"two twice", []metav1.OwnerReference{b, a, b, a}, []metav1.OwnerReference{b, a}, "duplicate UID(s) observed: b, a"},
		{"one in two ways", []metav1.OwnerReference{a, other, other}, []metav1.OwnerReference{a, other}, "duplicate UID(s) observed: a"},
	} {
		obj := &metav1.ObjectMeta{OwnerReferences: c.given}
		warning := ownerreferences.WithoutRepeated(obj)
		if !strings.HasSuffix(warning, c.warns) || (warning == "") != (c.warns == "") || !reflect.DeepEqual(obj.OwnerReferences, c.kept) {
			t.Errorf("%s: warned %q, kept %v", c.name, warning, obj.OwnerReferences)
		}
	}
}

func TestNothingIsRemovedThatChangedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seen := create(w, "default", newConfigMap("c"))
	if _, err := update(w, "default", "c", "", func(c *corev1.ConfigMap) { c.Finalizers = []string{"example.com/hold"} }); err != nil {
		t.Fatal(err)
	}
	if _, err := resource[*corev1.ConfigMap](w).Remove(t.Context(), "default", "c", seen); !errors.Is(err, registry.ErrChanged) {
		t.Errorf("removing an object that got a finalizer: %v", err)
	}
	get[*corev1.ConfigMap](w, "default", "c")
}

func TestUnconditionalUpdatesAllArrive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	create(w, "default", newConfigMap("c"))
	var wg sync.WaitGroup
	keys := []string{"k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8"}
	for _, key := range keys {
		wg.Go(func() {
			_, err := update(w, "default", "c", "", func(c *corev1.ConfigMap) { c.ResourceVersion, c.Data[key] = "", "1" })
			if err != nil {
				t.Errorf("writing %s: %v", key, err)
			}
		})
	}
	wg.Wait()
	got := get[*corev1.ConfigMap](w, "default", "c")
	for _, key := range keys {
		if got.Data[key] != "1" {
			t.Errorf("%s was lost", key)
		}
	}
}

func TestFinalizersHoldADeletedObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := newConfigMap("c")
	c.Finalizers = []string{"example.com/hold"}
	create(w, "default", c)
	resource := resource[*corev1.ConfigMap](w)
	obj, gone, err := resource.Delete(t.Context(), "default", "c", metav1.DeleteOptions{})
	if err != nil || gone || obj.GetDeletionTimestamp() == nil || *obj.GetDeletionGracePeriodSeconds() != 0 {
		t.Fatalf("deleted: %v, %v, %+v", gone, err, obj)
	}
	_, err = resource.Create(t.Context(), "default", newConfigMap("c"), metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) || err.Error() != `object is being deleted: configmaps "c" already exists` {
		t.Errorf("creating it again: %v", err)
	}
	if _, err := update(w, "default", "c", "", func(c *corev1.ConfigMap) { c.DeletionTimestamp = nil }); err != nil {
		t.Fatal(err)
	}
	if get[*corev1.ConfigMap](w, "default", "c").DeletionTimestamp == nil {
		t.Error("an update undid the deletion")
	}
	if _, err := update(w, "default", "c", "", func(c *corev1.ConfigMap) { c.Finalizers = []string{"example.com/other", "example.com/hold"} }); !apierrors.IsInvalid(err) {
		t.Errorf("a new finalizer on a deleted object: %v", err)
	}
	if _, err := update(w, "default", "c", "", func(c *corev1.ConfigMap) { c.Finalizers = nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := resource.Get(t.Context(), "default", "c"); !apierrors.IsNotFound(err) {
		t.Errorf("after its last finalizer: %v", err)
	}
}

func TestDeletePropagationAndPreconditions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	deployments := resource[*appsv1.Deployment](w)
	for policy, finalizer := range map[metav1.DeletionPropagation]string{
		metav1.DeletePropagationOrphan:     metav1.FinalizerOrphanDependents,
		metav1.DeletePropagationForeground: metav1.FinalizerDeleteDependents,
	} {
		name := strings.ToLower(string(policy))
		created := create(w, "default", newDeployment(name))
		obj, gone, err := deployments.Delete(t.Context(), "default", name, metav1.DeleteOptions{PropagationPolicy: &policy})
		if err != nil || gone || len(obj.GetFinalizers()) != 1 || obj.GetFinalizers()[0] != finalizer || obj.GetGeneration() != created.Generation+1 {
			t.Errorf("%s: %v, %v, %+v", policy, gone, err, obj)
		}
	}
	background := metav1.DeletePropagationBackground
	_, gone, err := deployments.Delete(t.Context(), "default", "foreground", metav1.DeleteOptions{PropagationPolicy: &background})
	if err != nil || !gone {
		t.Errorf("background after foreground: %v, %v", gone, err)
	}
	create(w, "default", newDeployment("d"))
	other, version := types.UID("other"), "1"
	for _, p := range []*metav1.Preconditions{{UID: &other}, {ResourceVersion: &version}} {
		_, _, err := deployments.Delete(t.Context(), "default", "d", metav1.DeleteOptions{Preconditions: p})
		if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), " in the precondition (") {
			t.Errorf("%+v: %v", p, err)
		}
	}
	if _, _, err := deployments.Delete(t.Context(), "default", "d", metav1.DeleteOptions{DryRun: []string{"All"}}); err != nil {
		t.Errorf("a dry deletion: %v", err)
	}
	if _, _, err := deployments.Delete(t.Context(), "default", "d", metav1.DeleteOptions{DryRun: []string{"Some"}}); !apierrors.IsInvalid(err) {
		t.Errorf("a malformed dry deletion: %v", err)
	}
	get[*appsv1.Deployment](w, "default", "d")
}

func TestDeleteCollection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"a", "b", "c"} {
		c := newConfigMap(name)
		c.Labels = map[string]string{"keep": map[bool]string{true: "yes", false: "no"}[name == "b"]}
		create(w, "default", c)
	}
	resource := resource[*corev1.ConfigMap](w)
	list, err := resource.DeleteCollection(t.Context(), "default", metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "keep=no"})
	if err != nil || len(list.(*corev1.ConfigMapList).Items) != 2 {
		t.Errorf("deleting: %v, %+v", err, list)
	}
	left, err := resource.List(t.Context(), "default", metav1.ListOptions{})
	if err != nil || len(left.(*corev1.ConfigMapList).Items) != 1 {
		t.Errorf("left: %v, %+v", err, left)
	}
}

func TestDeploymentGenerationAndScale(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := newDeployment("web")
	d.Status.Replicas, d.Generation = 9, 9
	got := create(w, "default", d)
	if got.Generation != 1 || got.Status.Replicas != 0 || *got.Spec.Replicas != 1 || got.Spec.Strategy.RollingUpdate.MaxSurge.StrVal != "25%" ||
		*got.Spec.RevisionHistoryLimit != 10 || *got.Spec.ProgressDeadlineSeconds != 600 {
		t.Errorf("created %+v", got)
	}
	got, err := update(w, "default", "web", "status", func(d *appsv1.Deployment) {
		d.Status.Replicas, *d.Spec.Replicas = 1, 7
	})
	if err != nil || got.Generation != 1 || *got.Spec.Replicas != 1 || got.Status.Replicas != 1 {
		t.Errorf("status: %v, %+v", err, got)
	}
	resource := resource[*appsv1.Deployment](w)
	scaled, err := scale.Update(t.Context(), resource, "default", "web", func(s *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
		s.Spec.Replicas = 3
		return s, nil
	}, registry.UpdateOptions{})
	if err != nil || scaled.Spec.Replicas != 3 || scaled.Status.Replicas != 1 || scaled.Status.Selector != "app=web" {
		t.Errorf("scaled: %v, %+v", err, scaled)
	}
	if got = get[*appsv1.Deployment](w, "default", "web"); got.Generation != 2 || *got.Spec.Replicas != 3 {
		t.Errorf("after scaling: %+v", got)
	}
	_, err = scale.Update(t.Context(), resource, "default", "web", func(s *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
		s.Spec.Replicas = -1
		return s, nil
	}, registry.UpdateOptions{})
	if !apierrors.IsInvalid(err) {
		t.Errorf("a negative scale: %v", err)
	}
	_, err = update(w, "default", "web", "", func(d *appsv1.Deployment) {
		d.Spec.Selector.MatchLabels = map[string]string{"app": "other"}
		d.Spec.Template.Labels = map[string]string{"app": "other"}
	})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "field is immutable") {
		t.Errorf("another selector: %v", err)
	}
	bad := newDeployment("bad")
	bad.Spec.Template.Labels = map[string]string{"app": "other"}
	_, err = resource.Create(t.Context(), "default", bad, metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "`selector` does not match template `labels`") {
		t.Errorf("a selector that does not select: %v", err)
	}
}

func TestDryRunWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.Etcd.Values(t, "/registry/")
	dry := metav1.CreateOptions{DryRun: []string{"All"}}
	if _, err := resource[*corev1.ConfigMap](w).Create(t.Context(), "default", newConfigMap("c"), dry); err != nil {
		t.Errorf("creating: %v", err)
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80}}}}
	if _, err := resource[*corev1.Service](w).Create(t.Context(), "default", service, dry); err != nil {
		t.Errorf("creating a service: %v", err)
	}
	_, err := resource[*corev1.ServiceAccount](w).Update(t.Context(), "default", "default", func(current scheme.Object) (scheme.Object, error) {
		account := current.DeepCopyObject().(*corev1.ServiceAccount)
		account.Labels = map[string]string{"a": "b"}
		return account, nil
	}, registry.UpdateOptions{DryRun: true})
	if err != nil {
		t.Errorf("updating: %v", err)
	}
	after := w.Etcd.Values(t, "/registry/")
	if len(after) != len(before) {
		t.Errorf("%d keys became %d", len(before), len(after))
	}
	for key, value := range before {
		if after[key] != value {
			t.Errorf("%s changed", key)
		}
	}
}

func TestPutOfALeaseCreatesIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	leases := resource[*coordinationv1.Lease](w)
	holder := "me"
	put := func(version string) (scheme.Object, bool, error) {
		created := false
		obj, err := leases.Update(t.Context(), "default", "l", func(scheme.Object) (scheme.Object, error) {
			return &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Name: "l", ResourceVersion: version}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder},
			}, nil
		}, registry.UpdateOptions{Created: &created})
		return obj, created, err
	}
	obj, created, err := put("")
	if err != nil || !created || obj.GetUID() == "" {
		t.Fatalf("the first PUT: %v, %v, %+v", created, err, obj)
	}
	if _, _, err := put(""); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "must be specified for an update") {
		t.Errorf("an unconditional PUT: %v", err)
	}
	if _, created, err := put(obj.GetResourceVersion()); err != nil || created {
		t.Errorf("a conditional PUT: %v, %v", created, err)
	}
}
