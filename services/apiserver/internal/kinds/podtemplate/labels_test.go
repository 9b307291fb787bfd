package podtemplate

import "testing"

// TestRenamedLabels checks each label of nodes that has another name now.
func TestRenamedLabels(t *testing.T) {
	for key, want := range map[string]string{
		"beta.kubernetes.io/arch":                  `deprecated since v1.14; use "kubernetes.io/arch" instead`,
		"beta.kubernetes.io/os":                    `deprecated since v1.14; use "kubernetes.io/os" instead`,
		"failure-domain.beta.kubernetes.io/region": `deprecated since v1.17; use "topology.kubernetes.io/region" instead`,
		"failure-domain.beta.kubernetes.io/zone":   `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
		"beta.kubernetes.io/instance-type":         `deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`,
		"kubernetes.io/os":                         "",
	} {
		if got := RenamedLabel(key); got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
}
