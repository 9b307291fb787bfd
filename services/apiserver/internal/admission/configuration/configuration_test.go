package configuration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n"

// write writes files into a new directory, and returns it.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestReadFile(t *testing.T) {
	dir := write(t, map[string]string{
		"all": head + `plugins:
- name: A
  path: a.yaml
- name: B
  path: /not/there
  configuration: {kind: B}
- name: C
- name: D
  path: gone.yaml
- name: E
  configuration: null
`,
		"alpha":  `{"apiVersion": "apiserver.k8s.io/v1alpha1", "kind": "AdmissionConfiguration"}`,
		"a.yaml": "kind: A\n",
	})
	entries, err := ReadFile(filepath.Join(dir, "all"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, e := range entries {
		document, err := e.Document()
		if err != nil {
			document = []byte(strings.ReplaceAll(err.Error(), dir, "DIR"))
		}
		got[e.Name] = string(document)
	}
	want := map[string]string{
		"A": "kind: A\n", "B": `{"kind":"B"}`, "C": "", "E": "",
		"D": "reading the configuration of the admission plugin D: open DIR/gone.yaml: no such file or directory",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the documents (-want +got):\n%s", diff)
	}
	if entries, err := ReadFile(filepath.Join(dir, "alpha")); err != nil || len(entries) != 0 {
		t.Errorf("v1alpha1: got %v, %v", entries, err)
	}
}

// TestLegacyFile reads files that are a plugin's document.
func TestLegacyFile(t *testing.T) {
	dir := write(t, map[string]string{
		"selectors": "podNodeSelectorPluginConfig: {a: b=c}\n", "images": "imagePolicy: {}\n", "kind": head + "podNodeSelectorPluginConfig: {}\n",
	})
	for name, want := range map[string]string{"selectors": "PodNodeSelector", "images": "ImagePolicyWebhook"} {
		entries, err := ReadFile(filepath.Join(dir, name))
		if err != nil || len(entries) != 1 || entries[0].Name != want || entries[0].Path != filepath.Join(dir, name) {
			t.Errorf("%s: got %v, %v", name, entries, err)
		}
	}
	if _, err := ReadFile(filepath.Join(dir, "kind")); err == nil {
		t.Error("a file with a kind is read as a plugin's document")
	}
}

func TestFaultyFiles(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"another kind", "apiVersion: v1\nkind: Pod\n", `apiVersion "v1" and kind "Pod"; known are kind AdmissionConfiguration`},
		{"no kind", "plugins: []\n", `apiVersion "" and kind ""`},
		{"an unknown version", "apiVersion: apiserver.config.k8s.io/v2\nkind: AdmissionConfiguration\n", `apiVersion "apiserver.config.k8s.io/v2"`},
		{"an unknown field", head + "plugin: []\n", `unknown field "plugin"`},
		{"an unknown field of a plugin", head + "plugins: [{name: A, file: b}]\n", `unknown field "plugins[0].file"`},
		{"a duplicate field", head + "plugins: []\nplugins: []\n", `"plugins" already set`},
		{"a wrong type", head + "plugins: 1\n", "cannot unmarshal number"},
		{"no YAML", "\t{", "failed decoding"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(write(t, map[string]string{"file": tc.text}), "file")
			_, err := ReadFile(path)
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
	_, err := ReadFile("/not/there")
	if want := `unable to read admission control configuration from "/not/there" [open /not/there: no such file or directory]`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// FuzzDecode checks that no document crashes the decoder, and that what it accepts has nothing that
// it does not know.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(head + "plugins: [{name: A, path: b, configuration: {c: 1}}]\n"))
	f.Add([]byte("{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var found file
		if DecodeKind(data, &found, "AdmissionConfiguration", versions()...) == nil && found.Kind != "AdmissionConfiguration" {
			t.Errorf("accepted %q as %q", data, found.Kind)
		}
	})
}
