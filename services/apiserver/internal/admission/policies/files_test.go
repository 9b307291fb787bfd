package policies_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission/policies"
)

const staticPolicies = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p.static.k8s.io}
spec:
  matchConstraints: {resourceRules: [{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*"]}]}
  validations: [{expression: "object.metadata.name != '%s'", message: m}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: b.static.k8s.io}
spec: {policyName: p.static.k8s.io, validationActions: [Deny]}
`

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestPoliciesInFiles checks that policies of files are in force beside those of the API, also for policies
// themselves, that changed files count, and that faulty ones change nothing.
func TestPoliciesInFiles(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	writeFile(t, file, fmt.Sprintf(staticPolicies, "p"))
	synctest.Test(t, func(t *testing.T) {
		w := newWorldWith(t, policy(`validations: [{expression: "object.metadata.name != 'q'", message: m}]`, ""), "",
			fmt.Sprintf("{apiVersion: apiserver.config.k8s.io/v1, kind: ValidatingAdmissionPolicyConfiguration, staticManifestsDir: %s}", dir))
		refusals := func(want string) {
			t.Helper()
			got := ""
			for _, name := range []string{"p", "q", "r"} {
				obj := pod()
				obj.Name = name
				if w.create(obj).err != nil {
					got += name
				}
			}
			if got != want {
				t.Errorf("refused are %q, want %q", got, want)
			}
		}
		refusals("pq")
		protected := &admissionregistrationv1.ValidatingAdmissionPolicy{}
		protected.Name = "p"
		if err := w.create(protected).err; err == nil || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy 'p.static.k8s.io' with binding 'b.static.k8s.io' denied request: m") {
			t.Errorf("the creation of a policy: %v", err)
		}
		protected.Name = "q"
		if err := w.create(protected).err; err != nil {
			t.Errorf("a policy of the API applies to policies: %v", err)
		}

		writeFile(t, file, fmt.Sprintf(staticPolicies, "r"))
		time.Sleep(time.Second)
		refusals("qr")
		writeFile(t, file, "kind: nothing")
		time.Sleep(time.Second)
		refusals("qr")
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		refusals("q")
		families, err := w.metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		reloads := map[string]float64{}
		for _, family := range families {
			if family.GetName() == "apiserver_manifest_admission_config_controller_automatic_reloads_total" {
				for _, m := range family.GetMetric() {
					reloads[m.GetLabel()[2].GetValue()] = m.GetCounter().GetValue()
				}
			}
		}
		if reloads["success"] != 3 || reloads["failure"] != 1 {
			t.Errorf("the reloads are %v, want 3 that succeeded and 1 that failed", reloads)
		}
	})
}

// TestConfigurationOfPolicies checks the errors of a plugin's configuration.
func TestConfigurationOfPolicies(t *testing.T) {
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: ValidatingAdmissionPolicyConfiguration\n"
	empty := filepath.Join(t.TempDir(), "empty")
	for document, want := range map[string]string{
		"":   "",
		head: "",
		"apiVersion: apiserver.config.k8s.io/v1\nkind: MutatingAdmissionPolicyConfiguration": "reading the configuration of admission policies: ",
		head + "staticManifestsDir: a/b":      `staticManifestsDir: Invalid value: "a/b": must be an absolute file path`,
		head + "staticManifestsDir: " + empty: `staticManifestsDir: Invalid value: "` + empty + `": unable to read: stat ` + empty,
		head + "other: x":                     `unknown field "other"`,
	} {
		w := newWorld(t, "")
		_, err := policies.Validating(policies.Config{Objects: w.Objects(), Document: []byte(document)})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", document, err, want)
		}
	}
}
