package manifests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const head = "apiVersion: admissionregistration.k8s.io/v1\n"

func policyNamed(name, more string) string {
	return head + "kind: ValidatingAdmissionPolicy\nmetadata: {name: " + name + `}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations: [{expression: "true"}]
` + more
}

func bindingOf(name, policy, more string) string {
	return head + "kind: ValidatingAdmissionPolicyBinding\nmetadata: {name: " + name + "}\nspec: {policyName: " + policy + ", validationActions: [Deny]" + more + "}\n"
}

func webhookNamed(name, client string) string {
	return head + "kind: ValidatingWebhookConfiguration\nmetadata: {name: " + name + "}\nwebhooks: [{name: a.example.com, sideEffects: None, " +
		"admissionReviewVersions: [v1], clientConfig: " + client + "}]\n"
}

// load returns what the files contain: "type name" of each object.
func load(t *testing.T, cfg Config, files map[string]string) ([]string, error) {
	t.Helper()
	cfg.Dir, cfg.Plugin = t.TempDir(), "P"
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(cfg.Dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m, err := Open(cfg)
	if err != nil {
		return nil, fmt.Errorf("%s", strings.ReplaceAll(err.Error(), cfg.Dir, "DIR"))
	}
	var found []string
	for _, obj := range m.Current(t.Context()).Objects {
		found = append(found, strings.TrimPrefix(fmt.Sprintf("%T ", obj), "*v1.")+obj.GetName())
	}
	return found, nil
}

func TestFiles(t *testing.T) {
	const p, b = "p.static.k8s.io", "b.static.k8s.io"
	got, err := load(t, Config{Policies: true}, map[string]string{
		"1.yaml": bindingOf(b, p, "") + "---\n\n---\n" + policyNamed("z.static.k8s.io", ""),
		"2.YML":  policyNamed(p, ""),
		"3.json": `{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyList", "items": []}]}`,
		"4.txt":  "nothing", "5.yaml": "",
	})
	want := []string{"ValidatingAdmissionPolicy " + p, "ValidatingAdmissionPolicy z.static.k8s.io", "ValidatingAdmissionPolicyBinding " + b}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("policies: %v; (-want +got):\n%s", err, diff)
	}
	got, err = load(t, Config{}, map[string]string{"a.yaml": webhookNamed("w.static.k8s.io", `{url: "https://example.com/a"}`)})
	if diff := cmp.Diff([]string{"ValidatingWebhookConfiguration w.static.k8s.io"}, got); diff != "" || err != nil {
		t.Errorf("webhooks: %v; (-want +got):\n%s", err, diff)
	}
	if got, err := load(t, Config{}, nil); len(got) > 0 || err != nil {
		t.Errorf("no files: %v, %v", got, err)
	}
}

// TestFaultyFiles checks the errors that end the apiserver's start.
func TestFaultyFiles(t *testing.T) {
	const p, b = "p.static.k8s.io", "b.static.k8s.io"
	for text, want := range map[string]string{
		"{":                      `failed to load static policy manifests from "DIR": error loading DIR/a.yaml: `,
		policyNamed("p", ""):     `"p" in file "DIR/a.yaml" must have a name ending with ".static.k8s.io"`,
		policyNamed(`""`, ""):    `ValidatingAdmissionPolicy "": metadata.name: Required value: name or generateName is required`,
		policyNamed(p, "odd: 1"): `strict decoding error: unknown field "odd"`,
		policyNamed(p, "---\n"+policyNamed(p, "")):                         `duplicate name "p.static.k8s.io" found in file "DIR/a.yaml" (previously seen in "DIR/a.yaml")`,
		policyNamed(p, "  paramKind: {apiVersion: v1, kind: ConfigMap}"):   `ValidatingAdmissionPolicy "p.static.k8s.io": spec.paramKind is not supported for static manifests`,
		policyNamed(p, "  matchConditions: [{name: a, expression: nope}]"): `ValidatingAdmissionPolicy "p.static.k8s.io": spec.matchConditions[0].expression: Invalid value: "nope": compilation failed`,
		bindingOf(b, "p", ""): `binding "b.static.k8s.io": spec.policyName "p" must end with ".static.k8s.io"`,
		bindingOf(b, p, ""):   `binding "b.static.k8s.io" references policy "p.static.k8s.io" which does not exist in the manifest directory`,
		bindingOf(b, p, ", paramRef: {name: a, parameterNotFoundAction: Deny}"):   `binding "b.static.k8s.io": spec.paramRef is not supported for static manifests`,
		head + "kind: MutatingAdmissionPolicy\nmetadata: {name: m.static.k8s.io}": "unsupported resource type *v1.MutatingAdmissionPolicy",
	} {
		if _, err := load(t, Config{Policies: true}, map[string]string{"a.yaml": text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	_, err := load(t, Config{}, map[string]string{"a.yaml": webhookNamed("w.static.k8s.io", "{service: {namespace: a, name: b}}")})
	const want = `webhook "a.example.com" in "w.static.k8s.io" (file "DIR/a.yaml"): clientConfig.service is not supported for static manifests; use clientConfig.url instead`
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a webhook of a Service: got %v", err)
	}
}

// TestFolders checks the errors of the folder itself.
func TestFolders(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"": "", dir: "", "a": "must be an absolute file path", dir + "/none": "unable to read: ", file: "must be a directory",
	} {
		if err := CheckDir(name); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", name, err, want)
		}
	}
}
