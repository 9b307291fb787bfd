package upstream

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/kubernetes/pkg/kubeapiserver/options"

	"github.com/garboard/garboard/services/apiserver/internal/admission/plugins"
)

// TestAdmissionPlugins compares the list of admission plugins, their order and their defaults with
// Kubernetes'.
func TestAdmissionPlugins(t *testing.T) {
	var names, off []string
	for _, p := range plugins.List() {
		names = append(names, p.Name)
		if !p.Default {
			off = append(off, p.Name)
		}
	}
	if diff := cmp.Diff(options.AllOrderedPlugins, names); diff != "" {
		t.Errorf("the plugins in order (-Kubernetes +ours):\n%s", diff)
	}
	// Installers enable it, and so do we.
	upstream := options.DefaultOffAdmissionPlugins().Delete("NodeRestriction").UnsortedList()
	slices.Sort(upstream)
	slices.Sort(off)
	if diff := cmp.Diff(upstream, off); diff != "" {
		t.Errorf("the plugins that are off by default (-Kubernetes +ours):\n%s", diff)
	}
}
