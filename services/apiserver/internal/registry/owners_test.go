package registry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/autoscaling/scale"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/binding"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
	"github.com/garboard/garboard/services/apiserver/internal/registry/registrytest"
)

// createBy creates obj in the namespace default.
func createBy[T scheme.Object](w *world, writer string, obj T) T {
	w.T.Helper()
	created, err := resource[T](w).Create(w.T.Context(), "default", obj, metav1.CreateOptions{FieldManager: writer})
	if err != nil {
		w.T.Fatalf("creating %T %s: %v", obj, obj.GetName(), err)
	}
	return created.(T)
}

// updateBy changes a copy of the current object.
func updateBy[T scheme.Object](w *world, writer, name, subresource string, change func(T)) T {
	w.T.Helper()
	updated, err := resource[T](w).Update(w.T.Context(), "default", name, func(current scheme.Object) (scheme.Object, error) {
		obj := current.DeepCopyObject().(T)
		change(obj)
		return obj, nil
	}, registry.UpdateOptions{Subresource: subresource, FieldManager: writer})
	if err != nil {
		w.T.Fatalf("updating %s: %v", name, err)
	}
	return updated.(T)
}

func TestWritersOwnWhatTheyWrote(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := createBy(w, "me", newConfigMap("m"))
	wantOwners(t, made, `me Update {"f:data":{".":{},"f:a":{}}}`)
	if entry := made.ManagedFields[0]; entry.APIVersion != "v1" || entry.FieldsType != "FieldsV1" || entry.Time == nil {
		t.Errorf("recorded as %+v", entry)
	}
	got := updateBy(w, "you", "m", "", func(m *corev1.ConfigMap) { m.Data["b"] = "c"; m.Labels = map[string]string{"l": "v"} })
	wantOwners(t, got, `me Update {"f:data":{".":{},"f:a":{}}}`, `you Update {"f:data":{"f:b":{}},"f:metadata":{"f:labels":{".":{},"f:l":{}}}}`)
	got = updateBy(w, "you", "m", "", func(m *corev1.ConfigMap) { m.Data["a"] = "c" })
	wantOwners(t, got, `me Update {"f:data":{}}`, `you Update {"f:data":{"f:a":{},"f:b":{}},"f:metadata":{"f:labels":{".":{},"f:l":{}}}}`)
	got = updateBy(w, "me", "m", "", func(m *corev1.ConfigMap) { delete(m.Data, "b"); m.Labels = nil })
	wantOwners(t, got, `me Update {"f:data":{}}`, `you Update {"f:data":{"f:a":{}}}`)

	same := updateBy(w, "they", "m", "", func(m *corev1.ConfigMap) { m.ResourceVersion = "" })
	if same.ResourceVersion != got.ResourceVersion || len(same.ManagedFields) != 2 {
		t.Errorf("an update of nothing made version %s of %s, owned by %q", same.ResourceVersion, got.ResourceVersion, owners(same))
	}
	same = updateBy(w, "they", "m", "", func(m *corev1.ConfigMap) { m.ManagedFields = nil })
	if same.ResourceVersion != got.ResourceVersion || len(same.ManagedFields) != 2 {
		t.Errorf("an update of nothing without owners made version %s of %s, owned by %q", same.ResourceVersion, got.ResourceVersion, owners(same))
	}
	t.Run("an update without owners keeps them", func(t *testing.T) {
		kept := updateBy(w, "me", "m", "", func(m *corev1.ConfigMap) { m.ManagedFields = nil; m.Data["a"] = "d" })
		wantOwners(t, kept, `me Update {"f:data":{".":{},"f:a":{}}}`)
	})
	t.Run("an invalid record is dropped", func(t *testing.T) {
		kept := updateBy(w, "me", "m", "", func(m *corev1.ConfigMap) { m.ManagedFields[0].Operation = "Steal"; m.Data["a"] = "e" })
		wantOwners(t, kept, `me Update {"f:data":{".":{},"f:a":{}}}`)
	})
	t.Run("a manager may be renamed", func(t *testing.T) {
		renamed := updateBy(w, "me", "m", "", func(m *corev1.ConfigMap) { m.ManagedFields[0].Manager = "other" })
		wantOwners(t, renamed, `other Update {"f:data":{".":{},"f:a":{}}}`)
	})
	for name, reset := range map[string][]metav1.ManagedFieldsEntry{"no entries": {}, "an empty entry": {{}}} {
		t.Run("reset by "+name, func(t *testing.T) {
			object := strings.ReplaceAll(name, " ", "-")
			createBy(w, "me", newConfigMap(object))
			none := updateBy(w, "me", object, "", func(m *corev1.ConfigMap) { m.ManagedFields = reset })
			if none.ManagedFields != nil {
				t.Errorf("owned by %q", owners(none))
			}
			// An object without owners gets none by an update. An apply records an owner of the
			// existing fields.
			none = updateBy(w, "me", object, "", func(m *corev1.ConfigMap) { m.Data["b"] = "c" })
			wantOwners(t, none)
			got, err := apply[*corev1.ConfigMap](w, "you", object, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: "+object+"}\ndata: {c: d}\n")
			if err != nil {
				t.Fatal(err)
			}
			wantOwners(t, got, `before-first-apply Update {"f:data":{".":{},"f:a":{},"f:b":{}}}`, `you Apply {"f:data":{"f:c":{}}}`)
		})
	}
}

func TestTimesAloneAreNoChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := createBy(w, "me", newConfigMap("m"))
	got := updateBy(w, "me", "m", "", func(m *corev1.ConfigMap) {
		later := metav1.NewTime(m.ManagedFields[0].Time.Add(time.Hour))
		m.ManagedFields[0].Time = &later
	})
	if got.ResourceVersion != made.ResourceVersion || !got.ManagedFields[0].Time.Equal(made.ManagedFields[0].Time) {
		t.Errorf("written as %s at %v", got.ResourceVersion, got.ManagedFields[0].Time)
	}
}

func TestOldUpdatersAreJoined(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	createBy(w, "me", newConfigMap("m"))
	var got *corev1.ConfigMap
	for i := range 12 {
		got = updateBy(w, fmt.Sprintf("w%02d", i), "m", "", func(m *corev1.ConfigMap) { m.Data[fmt.Sprintf("k%d", i)] = "v" })
	}
	list := owners(got)
	if len(list) != 10 || !slices.ContainsFunc(list, func(entry string) bool { return strings.HasPrefix(entry, "ancient-changes Update {") }) {
		t.Errorf("owned by %d: %q", len(list), list)
	}
}

func TestStatusIsItsWriters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	deployment := newDeployment("web")
	deployment.Status.Replicas = 7
	made := createBy(w, "me", deployment)
	if len(made.ManagedFields) != 1 || strings.Contains(owners(made)[0], "f:status") {
		t.Errorf("owned by %q", owners(made))
	}
	got := updateBy(w, "controller", "web", "status", func(d *appsv1.Deployment) {
		d.Status.Replicas, d.Spec.Paused, d.Labels = 1, true, map[string]string{"a": "b"}
	})
	if list := owners(got); len(list) != 2 || list[0] != `controller Update status {"f:status":{"f:replicas":{}}}` {
		t.Errorf("owned by %q", list)
	}
	got = updateBy(w, "me", "web", "", func(d *appsv1.Deployment) { d.Status.Replicas, d.Spec.Paused = 5, true })
	if list := owners(got); list[0] != `controller Update status {"f:status":{"f:replicas":{}}}` || !strings.Contains(list[1], "f:paused") || got.Status.Replicas != 1 {
		t.Errorf("owned by %q", list)
	}
	const status = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {paused: false}\nstatus: {replicas: 3}\n"
	_, err := apply[*appsv1.Deployment](w, "other", "web", status, toStatus)
	checkConflict(t, err, `Apply failed with 1 conflict: conflict with "controller" with subresource "status" using apps/v1: .status.replicas`,
		[]string{`.status.replicas: conflict with "controller" with subresource "status" using apps/v1`})
	got, err = apply[*appsv1.Deployment](w, "other", "web", status, toStatus, forced)
	if err != nil || got.Status.Replicas != 3 || !got.Spec.Paused {
		t.Fatalf("forced %+v: %v", got, err)
	}
	if list := owners(got); len(list) != 2 || list[1] != `other Apply status {"f:status":{"f:replicas":{}}}` {
		t.Errorf("owned by %q", list)
	}
}

func TestScaleHandsReplicasOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := strings.Replace(template, "spec:\n", "spec:\n  replicas: 2\n", 1) + "      - {name: c, image: x}\n"
	if _, err := apply[*appsv1.Deployment](w, "me", "web", text); err != nil {
		t.Fatal(err)
	}
	deployments := resource[*appsv1.Deployment](w)
	_, err := scale.Apply(t.Context(), deployments, "default", "web",
		wanted(t, "apiVersion: autoscaling/v1\nkind: Scale\nmetadata: {name: web}\nspec: {replicas: 3}"), registry.UpdateOptions{FieldManager: "scaler"})
	checkConflict(t, err, `Apply failed with 1 conflict: conflict with "me": .spec.replicas`, []string{`.spec.replicas: conflict with "me"`})
	scaled, err := scale.Update(t.Context(), deployments, "default", "web", func(s *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
		s.Spec.Replicas = 3
		return s, nil
	}, registry.UpdateOptions{FieldManager: "scaler"})
	if err != nil || scaled.Spec.Replicas != 3 || scaled.ManagedFields != nil {
		t.Fatalf("scaled to %+v: %v", scaled, err)
	}
	const scaler = `scaler Update scale {"f:spec":{"f:replicas":{}}}`
	got := get[*appsv1.Deployment](w, "default", "web")
	if list := owners(got); len(list) != 2 || strings.Contains(list[0], "f:replicas") || list[1] != scaler {
		t.Errorf("owned by %q", list)
	}
	_, err = apply[*appsv1.Deployment](w, "me", "web", text)
	if err == nil || !strings.Contains(err.Error(), `conflict with "scaler" with subresource "scale" using apps/v1`) {
		t.Errorf("applied against the scaler: %v", err)
	}
	// Without replicas in the configuration, the scaler keeps them.
	got, err = apply[*appsv1.Deployment](w, "me", "web", strings.Replace(text, "  replicas: 2\n", "", 1))
	if err != nil || *got.Spec.Replicas != 3 || !slices.Contains(owners(got), scaler) {
		t.Fatalf("applied without replicas: %v, %q", err, owners(got))
	}
	scaled, err = scale.Apply(t.Context(), deployments, "default", "web",
		wanted(t, "apiVersion: autoscaling/v1\nkind: Scale\nmetadata: {name: web}\nspec: {replicas: 4}"), registry.UpdateOptions{FieldManager: "hand", Force: true})
	if err != nil || scaled.Spec.Replicas != 4 {
		t.Fatalf("applied %+v: %v", scaled, err)
	}
	if list := owners(get[*appsv1.Deployment](w, "default", "web")); len(list) != 2 || list[0] != `hand Apply scale {"f:spec":{"f:replicas":{}}}` {
		t.Errorf("owned by %q", list)
	}
}

// TestKubectlTakesOverWhatItApplied switches from client-side apply to server-side apply, and back.
func TestKubectlTakesOverWhatItApplied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const last = "kubectl.kubernetes.io/last-applied-configuration"
	object := newConfigMap("m")
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "m", "annotations": map[string]string{}}, "data": object.Data,
	})
	if err != nil {
		t.Fatal(err)
	}
	object.Annotations = map[string]string{last: string(text)}
	createBy(w, "kubectl-client-side-apply", object)
	config := func(value string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {a: " + value + "}\n"
	}
	if _, err := apply[*corev1.ConfigMap](w, "another", "m", config("c")); err == nil {
		t.Error("a writer other than kubectl takes over what kubectl applied")
	}
	got, err := apply[*corev1.ConfigMap](w, "kubectl", "m", config("c"))
	if err != nil {
		t.Fatal(err)
	}
	if got.Data["a"] != "c" || !strings.Contains(got.Annotations[last], `"data":{"a":"c"}`) {
		t.Errorf("applied %v, remembered as %s", got.Data, got.Annotations[last])
	}
	if list := owners(got); len(list) != 2 || list[0] != `kubectl Apply {"f:data":{"f:a":{}}}` {
		t.Errorf("owned by %q", list)
	}
	// Fields that another writer has changed since kubectl applied them are not kubectl's.
	updateBy(w, "you", "m", "", func(m *corev1.ConfigMap) { m.Data["a"] = "d" })
	if _, err := apply[*corev1.ConfigMap](w, "kubectl", "m", config("e")); err == nil || !strings.Contains(err.Error(), `conflict with "you" using v1`) {
		t.Errorf("kubectl applied over you: %v", err)
	}
}

func TestAVersionsOwnersStayThroughAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	now := metav1.NewMicroTime(time.Now())
	createBy(w, "me", &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "e"}, EventTime: now, ReportingController: "c", ReportingInstance: "i", Action: "a",
		Reason: "r", Type: "Normal", Note: "n", Regarding: corev1.ObjectReference{Kind: "Pod", Name: "p", Namespace: "default"},
	})
	old := updateBy(w, "you", "e", "", func(e *corev1.Event) { e.Labels = map[string]string{"l": "v"}; e.Count = 2 })
	got := get[*eventsv1.Event](w, "default", "e")
	if list := owners(got); len(list) != 2 || !strings.Contains(list[0], `"f:note":{}`) || !strings.Contains(list[1], `"f:count":{}`) {
		t.Fatalf("owned by %q", list)
	}
	if i := slices.IndexFunc(old.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == "me" }); old.ManagedFields[i].APIVersion != "events.k8s.io/v1" {
		t.Errorf("my version is %s", old.ManagedFields[i].APIVersion)
	}
	// In the old version the note has another name; its owner still loses it.
	list := owners(updateBy(w, "they", "e", "", func(e *corev1.Event) { e.Message = "other" }))
	if strings.Contains(strings.Join(list, " "), `"f:note"`) || !slices.Contains(list, `they Update {"f:message":{}}`) {
		t.Errorf("owned by %q", list)
	}
}

func TestBindingsHaveNoOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := createBy(w, "me", newPod("web"))
	_, err := binding.Bind(t.Context(), resource[*corev1.Pod](w), "default", "web",
		&corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}, metav1.CreateOptions{FieldManager: "scheduler"})
	if err != nil {
		t.Fatal(err)
	}
	got := get[*corev1.Pod](w, "default", "web")
	wantOwners(t, got, owners(made)...)
	// Fields added by admission have no owner either.
	if strings.Contains(owners(got)[0], "kube-api-access") || strings.Contains(owners(got)[0], "f:tolerations") {
		t.Errorf("owned by %q", owners(got))
	}
}

func TestAdmissionCannotBreakTheRecord(t *testing.T) {
	t.Parallel()
	var broken bool
	w := newWorld(t, func(c *registrytest.Config) {
		c.Admission = []admission.Plugin{{Name: "Breaker", Mutate: func(_ context.Context, req *admission.Request) error {
			if req.Object.GetLabels()["break"] == "" {
				return nil
			}
			broken = true
			req.Object.SetManagedFields([]metav1.ManagedFieldsEntry{{Operation: "Steal"}})
			return nil
		}}}
	})
	object := newConfigMap("m")
	object.Labels = map[string]string{"break": "yes"}
	var warnings []string
	ctx := admission.WithWarnings(t.Context(), func(text string) { warnings = append(warnings, text) })
	got, err := resource[*corev1.ConfigMap](w).Create(ctx, "default", object, metav1.CreateOptions{FieldManager: "me"})
	if err != nil || !broken {
		t.Fatalf("broken %t: %v", broken, err)
	}
	wantOwners(t, got, `me Update {"f:data":{".":{},"f:a":{}},"f:metadata":{"f:labels":{".":{},"f:break":{}}}}`)
	const want = ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating " +
		"admission controller; please fix your requests: operation must be `Apply` or `Update`"
	if !slices.Equal(warnings, []string{want}) {
		t.Errorf("warned %q", warnings)
	}
}
