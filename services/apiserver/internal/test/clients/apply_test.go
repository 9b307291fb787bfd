package clients_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	appsac "k8s.io/client-go/applyconfigurations/apps/v1"
	autoscalingac "k8s.io/client-go/applyconfigurations/autoscaling/v1"
	coreac "k8s.io/client-go/applyconfigurations/core/v1"
	metaac "k8s.io/client-go/applyconfigurations/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// deploymentToApply returns the Deployment that the tests apply.
func deploymentToApply(name string) *appsac.DeploymentApplyConfiguration {
	labels := map[string]string{"app": name}
	return appsac.Deployment(name, "default").WithSpec(appsac.DeploymentSpec().
		WithSelector(metaac.LabelSelector().WithMatchLabels(labels)).
		WithTemplate(coreac.PodTemplateSpec().WithLabels(labels).WithSpec(coreac.PodSpec().
			WithContainers(coreac.Container().WithName("c").WithImage("nginx:1.14.2").WithPorts(coreac.ContainerPort().WithContainerPort(80))))))
}

// TestTypedApply applies with client-go's typed client, in JSON and protobuf, through everything
// that shows the owners of fields.
func TestTypedApply(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	for name, contentType := range map[string]string{"json": runtime.ContentTypeJSON, "protobuf": runtime.ContentTypeProtobuf} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			config := s.Admin()
			config.ContentType, config.AcceptContentTypes, config.UserAgent = contentType, contentType, "tester/v1 (x)"
			clients := harness.Typed(t, config)
			deployments := clients.AppsV1().Deployments("default")
			made, err := deployments.Apply(ctx, deploymentToApply(name), metav1.ApplyOptions{FieldManager: "me"})
			if err != nil {
				t.Fatal(err)
			}
			if made.Generation != 1 || len(made.ManagedFields) != 1 || made.ManagedFields[0].Manager != "me" || made.ManagedFields[0].Operation != metav1.ManagedFieldsOperationApply {
				t.Fatalf("created %+v", made.ObjectMeta)
			}
			// An update without a field manager belongs to its program.
			made.Spec.Template.Spec.Containers[0].Image = "nginx:1.16.1"
			if _, err := deployments.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			_, err = deployments.Apply(ctx, deploymentToApply(name), metav1.ApplyOptions{FieldManager: "me"})
			if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "tester" using apps/v1: .spec.template.spec.containers[name="c"].image`) {
				t.Errorf("applying over another manager: got %v, want a conflict", err)
			}
			back, err := deployments.Apply(ctx, deploymentToApply(name), metav1.ApplyOptions{FieldManager: "me", Force: true})
			if err != nil || back.Spec.Template.Spec.Containers[0].Image != "nginx:1.14.2" {
				t.Fatalf("applying by force: got %+v, %v", back, err)
			}
			status := appsac.Deployment(name, "default").WithStatus(appsac.DeploymentStatus().WithReplicas(3))
			if got, err := deployments.ApplyStatus(ctx, status, metav1.ApplyOptions{FieldManager: "controller"}); err != nil || got.Status.Replicas != 3 || *got.Spec.Replicas != 1 {
				t.Fatalf("applying the status: got %+v, %v", got, err)
			}
			// To a scale, replicas without an owner count as owned by a writer from before the
			// first apply.
			scale := autoscalingac.Scale().WithName(name).WithNamespace("default").WithSpec(autoscalingac.ScaleSpec().WithReplicas(4))
			if got, err := deployments.ApplyScale(ctx, name, scale, metav1.ApplyOptions{FieldManager: "scaler", Force: true}); err != nil || got.Spec.Replicas != 4 {
				t.Fatalf("applying the scale: got %+v, %v", got, err)
			}
			want := []string{"controller/status", "me/", "scaler/scale"}
			got, err := deployments.Get(ctx, name, metav1.GetOptions{})
			if err != nil || !slices.Equal(managers(got.ManagedFields), want) {
				t.Errorf("got the owners %q, %v", managers(got.ManagedFields), err)
			}
			watching, err := deployments.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
			if err != nil {
				t.Fatal(err)
			}
			defer watching.Stop()
			event, ok := (<-watching.ResultChan()).Object.(metav1.Object)
			if !ok || !slices.Equal(managers(event.GetManagedFields()), want) {
				t.Errorf("watched the owners %q", managers(event.GetManagedFields()))
			}
			// A client still owns the fields that it extracts by its manager, changes and applies again.
			mine, err := appsac.ExtractDeployment(got, "me")
			if err != nil || mine.Spec.Replicas != nil || len(mine.Spec.Template.Spec.Containers) != 1 {
				t.Fatalf("extracted %+v, %v", mine, err)
			}
			mine.Spec.Template.Spec.Containers[0].WithEnv(coreac.EnvVar().WithName("A").WithValue("b"))
			if _, err := deployments.Apply(ctx, mine, metav1.ApplyOptions{FieldManager: "me"}); err != nil {
				t.Error(err)
			}
		})
	}
}

func managers(entries []metav1.ManagedFieldsEntry) []string {
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Manager+"/"+entry.Subresource)
	}
	slices.Sort(names)
	return names
}

// TestApplyOverHTTP compares the responses to applies with Kubernetes' codes and words.
func TestApplyOverHTTP(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	admin := s.Admin()
	const maps = "/api/v1/namespaces/default/configmaps"
	send := func(name, query, body string) (*http.Response, string) {
		return s.Exchange(admin, "PATCH", maps+"/"+name+query, body, map[string]string{"Content-Type": string(types.ApplyYAMLPatchType)})
	}
	const config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {a: b}\n"
	for _, c := range []struct {
		name, query, body string
		code              int
		says, warns       string
	}{
		{name: "creates in a dry run", query: "?fieldManager=me&dryRun=All", body: config, code: 201, says: `"manager":"me","operation":"Apply"`},
		{name: "creates", query: "?fieldManager=me", body: config, code: 201, says: `"manager":"me","operation":"Apply"`},
		{name: "applies", query: "?fieldManager=me", body: config, code: 200, says: `"manager":"me","operation":"Apply"`},
		{name: "a duplicate field", query: "?fieldManager=me", body: config + "data: {a: b}\n", code: 200, warns: `299 - "line 5: key \"data\" already set in map"`},
		{name: "a duplicate field, strict", query: "?fieldManager=me&fieldValidation=Strict", body: config + "data: {a: b}\n", code: 400,
			says: `error strict decoding patch: error converting YAML to JSON: yaml: unmarshal errors:\n  line 5: key \"data\" already set in map`},
		{name: "a conflict", query: "?fieldManager=you", body: strings.Replace(config, "a: b", "a: c", 1), code: 409, says: `"reason":"FieldManagerConflict","message":"conflict with \"me\"","field":".data.a"`},
		{name: "a conflict, forced", query: "?fieldManager=you&force=true", body: strings.Replace(config, "a: b", "a: c", 1), code: 200, says: `"manager":"you"`},
		{name: "no manager", query: "", body: config, code: 422, says: "fieldManager: Required value: is required for apply patch"},
		{name: "a manager with a bad name", query: "?fieldManager=a%09b", body: config, code: 422, says: "fieldManager: Invalid value"},
		{name: "an unknown field", query: "?fieldManager=me", body: config + "foo: 1\n", code: 500, says: ".foo: field not declared in schema"},
		{name: "malformed YAML", query: "?fieldManager=me", body: "a: b: c", code: 400, says: "error encoding patch: "},
	} {
		res, body := send("m", c.query, c.body)
		if res.StatusCode != c.code || !strings.Contains(body, c.says) || res.Header.Get("Warning") != c.warns {
			t.Errorf("%s: got %d %s, warning %q", c.name, res.StatusCode, body, res.Header.Get("Warning"))
		}
	}
	res, body := s.Exchange(admin, "PATCH", maps+"/m?fieldManager=me&force=true", `{"data":{"a":"d"}}`, map[string]string{"Content-Type": string(types.MergePatchType)})
	if res.StatusCode != 422 || !strings.Contains(body, "force: Forbidden: may not be specified for non-apply patch") {
		t.Errorf("a merge patch by force: got %d %s", res.StatusCode, body)
	}
	res, _ = s.Exchange(admin, "PATCH", maps+"/m?fieldManager=me", "x", map[string]string{"Content-Type": string(types.ApplyCBORPatchType)})
	if res.StatusCode != 415 {
		t.Errorf("CBOR: got %d, want 415", res.StatusCode)
	}
	// An empty list of managed fields, which protobuf cannot distinguish from none, ends the record
	// of owners.
	res, body = s.Exchange(admin, "PATCH", maps+"/m", `{"metadata":{"managedFields":[]}}`, map[string]string{"Content-Type": string(types.MergePatchType)})
	if res.StatusCode != 200 || strings.Contains(body, "managedFields") {
		t.Errorf("resetting the managed fields: got %d %s", res.StatusCode, body)
	}
	res, body = send("other", "?fieldManager=me", strings.Replace(config, "name: m", "name: other", 1))
	var made corev1.ConfigMap
	if err := json.Unmarshal([]byte(body), &made); err != nil || res.StatusCode != 201 {
		t.Fatalf("creating another: got %d %s, %v", res.StatusCode, body, err)
	}
	res, body = s.Exchange(admin, "GET", maps+"/other", "", map[string]string{"Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"})
	var partial metav1.PartialObjectMetadata
	if err := json.Unmarshal([]byte(body), &partial); err != nil || res.StatusCode != 200 || len(partial.ManagedFields) != 1 {
		t.Errorf("the metadata: got %d %s, %v", res.StatusCode, body, err)
	}
}

// TestControllerRuntimeApplies applies with controller-runtime's client.
func TestControllerRuntimeApplies(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	c, err := client.New(s.Admin(), client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(t.Context(), deploymentToApply("web"), client.FieldOwner("me")); err != nil {
		t.Fatal(err)
	}
	other := deploymentToApply("web")
	other.Spec.Template.Spec.Containers[0].WithImage("other")
	if err := c.Apply(t.Context(), other, client.FieldOwner("you")); !apierrors.IsConflict(err) {
		t.Errorf("applying over another manager: got %v, want a conflict", err)
	}
	if err := c.Apply(t.Context(), other, client.FieldOwner("you"), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	if other.Spec.Template.Spec.Containers[0].Image == nil || other.UID == nil {
		t.Errorf("got %+v", other)
	}
}
