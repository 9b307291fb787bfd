package api_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garboard/garboard/services/apiserver"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// TestPolicies creates policies over HTTP, and checks that the very next requests meet them.
func TestPolicies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rules, log := filepath.Join(dir, "audit.yaml"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(rules, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := harness.StartWith(t, func(cfg *apiserver.Config) {
		cfg.Audit.PolicyFile, cfg.Audit.LogPath, cfg.Audit.Mode = rules, log, "blocking"
	})
	admin := s.Admin()
	send := func(method, path, body string, code int) (answer string, warnings []string) {
		t.Helper()
		header := map[string]string{"Content-Type": "application/json"}
		if method == "PATCH" {
			header["Content-Type"] = "application/merge-patch+json"
		}
		res, answer := s.Exchange(admin, method, path, body, header)
		if res.StatusCode != code {
			t.Fatalf("%s %s: got %d %s, want %d", method, path, res.StatusCode, answer, code)
		}
		return answer, res.Header.Values("Warning")
	}
	const group, maps = "/apis/admissionregistration.k8s.io/v1/", "/api/v1/namespaces/default/configmaps"
	create := func(kind, resource, name, spec string) {
		t.Helper()
		send("POST", group+resource, `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"`+kind+`","metadata":{"name":"`+name+`"},"spec":`+spec+`}`, 201)
	}
	policy := func(name, spec string) {
		create("ValidatingAdmissionPolicy", "validatingadmissionpolicies", name, spec)
	}
	bind := func(name, spec string) {
		create("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", name, spec)
	}
	configMap := func(name, data string) string {
		return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"` + name + `"},"data":{` + data + `}}`
	}
	const ofMaps = `"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE","UPDATE","DELETE"],"resources":["configmaps"]}]}`

	send("POST", maps, configMap("limits", `"most":"2"`), 201)
	policy("small", `{"paramKind":{"apiVersion":"v1","kind":"ConfigMap"},`+ofMaps+`,
		"matchConditions":[{"name":"made-by-users","expression":"!(request.name in ['kube-root-ca.crt','limits'])"}],
		"variables":[{"name":"keys","expression":"object == null ? 0 : size(object.data)"}],
		"validations":[{"expression":"variables.keys <= int(params.data.most)","messageExpression":"'has ' + string(variables.keys) + ' keys'"}],
		"auditAnnotations":[{"key":"keys","valueExpression":"string(variables.keys)"}]}`)
	bind("small", `{"policyName":"small","validationActions":["Deny","Audit"],"paramRef":{"name":"limits","namespace":"default","parameterNotFoundAction":"Deny"}}`)
	answer, _ := send("POST", maps, configMap("a", `"1":"","2":"","3":""`), 422)
	const denied = `configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'small' with binding 'small' denied request: has 3 keys`
	if !strings.Contains(answer, denied) || !strings.Contains(answer, `"reason":"Invalid"`) {
		t.Errorf("got %s, want %s", answer, denied)
	}
	send("POST", maps, configMap("a", `"1":"","2":""`), 201)
	send("PATCH", maps+"/a", `{"data":{"3":""}}`, 422)
	send("PATCH", maps+"/a?dryRun=All", `{"data":{"3":""}}`, 422)
	send("PATCH", maps+"/a", `{"data":{"1":"x"}}`, 200)

	path := group + "validatingadmissionpolicybindings/small"
	send("PATCH", path, `{"spec":{"validationActions":["Warn"]}}`, 200)
	_, warnings := send("PATCH", maps+"/a", `{"data":{"3":""}}`, 200)
	if want := `299 - "Validation failed for ValidatingAdmissionPolicy 'small' with binding 'small': has 3 keys"`; len(warnings) != 1 || warnings[0] != want {
		t.Errorf("got the warnings %q, want %s", warnings, want)
	}
	send("DELETE", path, "", 200)
	if _, warnings := send("PATCH", maps+"/a", `{"data":{"4":""}}`, 200); len(warnings) > 0 {
		t.Errorf("without a binding: got the warnings %q", warnings)
	}
	checkAnnotations(t, log)

	t.Run("mutating", func(t *testing.T) { mutatingPolicies(t, send, create) })
}

// checkAnnotations checks what the audit log says about the refused creation.
func checkAnnotations(t *testing.T, log string) {
	t.Helper()
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	var found bool
	for line := range strings.Lines(string(data)) {
		var event struct {
			Stage, Verb    string
			ObjectRef      struct{ Resource, Name string }
			ResponseStatus struct{ Code int }
			Annotations    map[string]string
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatal(err)
		}
		if event.Stage != "ResponseComplete" || event.Verb != "create" || event.ObjectRef.Name != "a" || event.ResponseStatus.Code != 422 {
			continue
		}
		found = true
		const failure = `[{"message":"has 3 keys","policy":"small","binding":"small","expressionIndex":0,"validationActions":["Deny","Audit"]}]`
		if got := event.Annotations["validation.policy.admission.k8s.io/validation_failure"]; got != failure {
			t.Errorf("got the failure %s, want %s", got, failure)
		}
		if got := event.Annotations["small/keys"]; got != "3" {
			t.Errorf("got the annotation %q, want 3", got)
		}
	}
	if !found {
		t.Errorf("no event of the refused creation in %s", data)
	}
}

func mutatingPolicies(t *testing.T, send func(method, path, body string, code int) (string, []string), create func(kind, resource, name, spec string)) {
	const hpas = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
	create("MutatingAdmissionPolicy", "mutatingadmissionpolicies", "fill", `{"reinvocationPolicy":"Never","matchConstraints":{"resourceRules":[
		{"apiGroups":["autoscaling"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["horizontalpodautoscalers"]}]},
		"mutations":[{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":"Object{spec: Object.spec{targetCPUUtilizationPercentage: 70}}"}},
			{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'add', path: '/metadata/labels', value: {'by': request.userInfo.username.replace(':', '-')}}]"}}]}`)
	create("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", "fill", `{"policyName":"fill"}`)
	// The policy is written for v1, and applies to v2.
	answer, _ := send("POST", hpas, `{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"h"},
		"spec":{"maxReplicas":2,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"d"}}}`, 201)
	for _, want := range []string{`"averageUtilization":70`, `"labels":{"by":"`, `"apiVersion":"autoscaling/v2"`} {
		if !strings.Contains(answer, want) {
			t.Errorf("got %s, want %s", answer, want)
		}
	}
	answer, _ = send("GET", hpas+"/h", "", 200)
	if !strings.Contains(answer, `"averageUtilization":70`) {
		t.Errorf("stored is %s", answer)
	}
	create("MutatingAdmissionPolicy", "mutatingadmissionpolicies", "failing", `{"reinvocationPolicy":"Never","matchConstraints":{"resourceRules":[
		{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["secrets"]}]},
		"mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'remove', path: '/no'}]"}}]}`)
	create("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", "failing", `{"policyName":"failing"}`)
	answer, _ = send("POST", "/api/v1/namespaces/default/secrets", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}`, 403)
	if want := `"message":"policy 'failing' with binding 'failing' denied request: JSON Patch: `; !strings.Contains(answer, want) {
		t.Errorf("got %s, want %s", answer, want)
	}
}
