package manifests

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TestReload checks when changed files count, and that faulty ones do not.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(policyNamed("a.static.k8s.io", ""))
	synctest.Test(t, func(t *testing.T) {
		registry, said := prometheus.NewRegistry(), &bytes.Buffer{}
		m, err := Open(Config{
			Dir: dir, Plugin: "P", Policies: true, Identity: "me", Registerer: registry, Logger: slog.New(slog.NewTextHandler(said, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		expect := func(want string) {
			t.Helper()
			if got := names(m.Current(t.Context())); got != want {
				t.Errorf("in force are %q, want %q", got, want)
			}
		}
		expect("a.static.k8s.io")
		first := m.Current(t.Context())
		write(policyNamed("b.static.k8s.io", ""))
		time.Sleep(every - time.Millisecond)
		expect("a.static.k8s.io")
		time.Sleep(time.Millisecond)
		expect("b.static.k8s.io")
		if second := m.Current(t.Context()); second == first || second != m.Current(t.Context()) {
			t.Error("a set is not kept while the files are the same")
		}

		write(policyNamed("c", ""))
		for range 3 {
			time.Sleep(every)
			expect("b.static.k8s.io")
		}
		if n := strings.Count(said.String(), "reading admission manifests failed"); n != 1 {
			t.Errorf("the failure is logged %d times, want 1:\n%s", n, said)
		}
		if got := counted(t, registry, "apiserver_manifest_admission_config_controller_automatic_reloads_total"); got["success"] != 2 || got["failure"] != 1 {
			t.Errorf("the reloads are %v", got)
		}
		info := counted(t, registry, "apiserver_manifest_admission_config_controller_last_config_info")
		if len(info) != 1 || info[m.Current(t.Context()).hash] != 1 {
			t.Errorf("the hashes are %v", info)
		}

		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		time.Sleep(every)
		expect("b.static.k8s.io")
		if !strings.Contains(said.String(), "failed to read manifest directory") {
			t.Errorf("a folder that is gone is not logged:\n%s", said)
		}
	})
}

// TestNoManifests checks that a plugin without files has no set.
func TestNoManifests(t *testing.T) {
	var none *Manifests
	if set := none.Current(t.Context()); set != nil {
		t.Errorf("got %v", set)
	}
}

func names(set *Set) string {
	var all []string
	for _, obj := range set.Objects {
		all = append(all, obj.GetName())
	}
	return strings.Join(all, " ")
}

// counted returns the values of a metric by the labels status or hash. All series must have the hash of
// the apiserver's identity.
func counted(t *testing.T, registry *prometheus.Registry, name string) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range m.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if labels["plugin"] != "P" || !strings.HasPrefix(labels[serverLabel], "sha256:") {
				t.Errorf("%s has the labels %v", name, labels)
			}
			values[labels["status"]+labels["hash"]] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return values
}

// FuzzDecode checks that no document breaks the apiserver, and that what is accepted has a reserved name.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		policyNamed("p.static.k8s.io", ""), bindingOf("b.static.k8s.io", "p.static.k8s.io", ""), "kind: List\napiVersion: v1\nitems: [{}]", "{", "",
		webhookNamed("w.static.k8s.io", `{url: "https://example.com"}`),
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, policies bool) {
		documents, err := split(data)
		if err != nil {
			return
		}
		var all []document
		for _, d := range documents {
			all = append(all, document{"file", d})
		}
		set, err := Config{Policies: policies}.decode(all, "hash")
		if err != nil {
			return
		}
		for _, obj := range set.Objects {
			if !strings.HasSuffix(obj.GetName(), ".static.k8s.io") {
				t.Errorf("%q is accepted", obj.GetName())
			}
		}
	})
}
