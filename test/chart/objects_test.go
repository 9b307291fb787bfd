package chart_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/test/e2e/plane"
)

// foreign lists kinds of other programs, which no apiserver serves here, with the fields that their
// objects need.
var foreign = map[string][]string{
	"cert-manager.io/v1 Issuer":               {"spec.(selfSigned|ca.secretName)"},
	"cert-manager.io/v1 Certificate":          {"spec.secretName", "spec.commonName", "spec.issuerRef.name", "spec.issuerRef.kind", "spec.privateKey.algorithm"},
	"monitoring.coreos.com/v1 ServiceMonitor": {"spec.selector.matchLabels", "spec.endpoints"},
	"monitoring.coreos.com/v1 PrometheusRule": {"spec.groups"},
}

// TestObjects has an apiserver check every object of every set of values; the server refuses
// unknown fields.
func TestObjects(t *testing.T) {
	p := plane.Start(t, plane.Binary(t), "--nodes", "0")
	p.Must(t, "", "create", "namespace", "planes")
	kinds := map[string]int{}
	for _, set := range valueSets(t) {
		t.Run(set, func(t *testing.T) {
			var manifest strings.Builder
			served := 0
			for _, object := range rendered(t, set) {
				kind := object.GetAPIVersion() + " " + object.GetKind()
				kinds[kind]++
				checkMetadata(t, object)
				if fields, ok := foreign[kind]; ok {
					checkForeign(t, object, fields)
					continue
				}
				served++
				data, err := yaml.Marshal(object.Object)
				if err != nil {
					t.Fatal(err)
				}
				manifest.WriteString("---\n" + string(data))
			}
			res := p.Kubectl(t, manifest.String(), "create", "--dry-run=server", "--validate=strict", "-f", "-")
			// The chart targets Kubernetes, which acts on StatefulSets and Services.
			stderrLines := slices.DeleteFunc(slices.Collect(strings.Lines(res.Stderr)), scheme.IsIgnored)
			if res.Code != 0 || strings.Count(res.Stdout, "created (server dry run)") != served || strings.Contains(strings.Join(stderrLines, ""), "Warning") {
				t.Errorf("want %d objects accepted, got\n%s%s", served, res.Stdout, res.Stderr)
			}
		})
	}
	// A misspelt field is refused.
	res := p.Kubectl(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: planes}\ndaat: {a: b}\n", "create", "--dry-run=server", "--validate=strict", "-f", "-")
	if res.Code == 0 || !strings.Contains(res.Stderr, `unknown field "daat"`) {
		t.Errorf("the server is not strict: %s%s", res.Stdout, res.Stderr)
	}
	for _, kind := range []string{
		"apps/v1 Deployment", "apps/v1 StatefulSet", "apps/v1 DaemonSet", "autoscaling/v2 HorizontalPodAutoscaler", "policy/v1 PodDisruptionBudget",
		"networking.k8s.io/v1 NetworkPolicy", "batch/v1 Job", "v1 Pod", "cert-manager.io/v1 Certificate", "monitoring.coreos.com/v1 ServiceMonitor", "monitoring.coreos.com/v1 PrometheusRule",
	} {
		if kinds[kind] == 0 {
			t.Errorf("no set of values has a %s", kind)
		}
	}
}

// checkMetadata checks that an object has its namespace and the conventional Kubernetes labels.
func checkMetadata(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	what := object.GetKind() + " " + object.GetName()
	if object.GetNamespace() != "planes" {
		t.Errorf("%s is in the namespace %q", what, object.GetNamespace())
	}
	labels := object.GetLabels()
	for _, label := range []string{"name", "instance", "component", "part-of", "version", "managed-by"} {
		if labels["app.kubernetes.io/"+label] == "" {
			t.Errorf("%s has no label app.kubernetes.io/%s", what, label)
		}
	}
}

func checkForeign(t *testing.T, object *unstructured.Unstructured, fields []string) {
	t.Helper()
	have := paths("", object.Object)
	for _, field := range fields {
		pattern := regexp.MustCompile("^" + field + "$")
		if !slices.ContainsFunc(have, pattern.MatchString) {
			t.Errorf("%s %s has no %s", object.GetKind(), object.GetName(), field)
		}
	}
}

// paths returns the non-empty fields of an object; of lists, only the list itself.
func paths(prefix string, fields map[string]any) (found []string) {
	for name, value := range fields {
		path := strings.TrimPrefix(prefix+"."+name, ".")
		switch value := value.(type) {
		case map[string]any:
			found = append(append(found, path), paths(path, value)...)
		case []any:
			if len(value) > 0 {
				found = append(found, path)
			}
		default:
			if fmt.Sprint(value) != "" {
				found = append(found, path)
			}
		}
	}
	return found
}

// TestPodsAreRestricted checks that only nodes have any privileges on the machine, and that only
// pods that use the cluster's API get a token for it.
func TestPodsAreRestricted(t *testing.T) {
	for _, set := range valueSets(t) {
		for _, object := range rendered(t, set) {
			path := []string{"spec", "template", "spec"}
			if object.GetKind() == "Pod" {
				path = path[:1]
			}
			spec, isPod, _ := unstructured.NestedMap(object.Object, path...)
			containers, _, _ := unstructured.NestedSlice(spec, "containers")
			if !isPod || len(containers) == 0 {
				continue
			}
			before, _, _ := unstructured.NestedSlice(spec, "initContainers")
			containers = append(containers, before...)
			what := set + ": " + object.GetKind() + " " + object.GetName()
			want := map[string]any{"runAsNonRoot": true, "runAsUser": int64(65532), "seccompProfile.type": "RuntimeDefault"}
			wantContainer := map[string]any{"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities.drop": []any{"ALL"}}
			if object.GetKind() == "DaemonSet" && (set == "nodes" || set == "builtin") {
				delete(want, "runAsNonRoot")
				delete(want, "runAsUser")
				wantContainer = map[string]any{"readOnlyRootFilesystem": true, "privileged": true}
			}
			checkFields(t, what, spec, "securityContext", want)
			for _, container := range containers {
				checkFields(t, what, container.(map[string]any), "securityContext", wantContainer)
				if resources, _, _ := unstructured.NestedMap(container.(map[string]any), "resources", "requests"); len(resources) == 0 {
					t.Errorf("%s has no resource requests", what)
				}
			}
			checkFields(t, what, spec, "", map[string]any{
				"automountServiceAccountToken": strings.HasSuffix(object.GetName(), "-init") || strings.HasSuffix(object.GetName(), "-token"), "enableServiceLinks": false,
			})
		}
	}
}

func checkFields(t *testing.T, what string, object map[string]any, below string, want map[string]any) {
	t.Helper()
	for path, value := range want {
		fields := strings.Split(path, ".")
		if below != "" {
			fields = append([]string{below}, fields...)
		}
		got, _, _ := unstructured.NestedFieldNoCopy(object, fields...)
		if number, ok := got.(float64); ok {
			got = int64(number)
		}
		if fmt.Sprint(got) != fmt.Sprint(value) {
			t.Errorf("%s has the %s %v, want %v", what, strings.Join(fields, "."), got, value)
		}
	}
}
