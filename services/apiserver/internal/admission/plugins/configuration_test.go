package plugins

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
)

// configurationFile writes an AdmissionConfiguration with plugins, and returns its path.
func configurationFile(t *testing.T, plugins string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "admission.yaml")
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n" + plugins
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestConfigurations(t *testing.T) {
	for _, tc := range []struct {
		name, plugins string
		disable       []string
		want          map[string][]byte
		fault         string
	}{
		{"none", "", nil, map[string][]byte{}, ""},
		{"one", "- {name: PodSecurity, configuration: {a: 1}}", nil, map[string][]byte{"PodSecurity": []byte(`{"a":1}`)}, ""},
		{"the first of two", "- {name: PodSecurity, configuration: {a: 1}}\n- {name: PodSecurity, configuration: {a: 2}}", nil, map[string][]byte{"PodSecurity": []byte(`{"a":1}`)}, ""},
		{"a disabled plugin", "- {name: PodSecurity, path: gone}", []string{"PodSecurity"}, map[string][]byte{}, ""},
		{"nothing for a plugin", "- {name: Priority}", nil, map[string][]byte{}, ""},
		{"a missing file", "- {name: PodSecurity, path: gone}", nil, nil, "reading the configuration of the admission plugin PodSecurity: open "},
		{"an unknown plugin", "- {name: PodSecurty, configuration: {a: 1}}", nil, nil, `the plugin "PodSecurty" in the admission configuration`},
		{"a plugin that takes none", "- {name: Priority, configuration: {a: 1}}", nil, nil, "takes no configuration"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Configurations(configurationFile(t, tc.plugins), nil, tc.disable)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("the documents (-want +got):\n%s", diff)
			}
			if (err != nil) != (tc.fault != "") || err != nil && !strings.Contains(err.Error(), tc.fault) {
				t.Errorf("got %v, want %q", err, tc.fault)
			}
		})
	}
	if got, err := Configurations("", nil, nil); got != nil || err != nil {
		t.Errorf("without a file: got %v, %v", got, err)
	}
}

// TestFaultyDocuments checks that each plugin with a configuration reads it.
func TestFaultyDocuments(t *testing.T) {
	w := admissiontest.New()
	for _, e := range list() {
		if e.flags&configured == 0 {
			continue
		}
		_, err := New(Config{
			Table: w.Table, Lookup: w, Enable: []string{e.name}, Configurations: map[string][]byte{e.name: []byte("nonsense: 1\n")},
		})
		if err == nil || !strings.Contains(err.Error(), e.name) {
			t.Errorf("%s with a faulty configuration: got %v, want an error that names it", e.name, err)
		}
	}
}
