package upstream

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	_ "k8s.io/apiextensions-apiserver/pkg/features"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/admission/install"
	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	_ "k8s.io/kubernetes/pkg/apis/apiserverinternal/install"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/authentication/install"
	_ "k8s.io/kubernetes/pkg/apis/authorization/install"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/certificates/install"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/discovery/install"
	_ "k8s.io/kubernetes/pkg/apis/events/install"
	_ "k8s.io/kubernetes/pkg/apis/extensions/install"
	_ "k8s.io/kubernetes/pkg/apis/flowcontrol/install"
	_ "k8s.io/kubernetes/pkg/apis/imagepolicy/install"
	_ "k8s.io/kubernetes/pkg/apis/lifecycle/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/node/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	_ "k8s.io/kubernetes/pkg/apis/storagemigration/install"
	_ "k8s.io/kubernetes/pkg/features"
)

// known has the lists by which the apiserver checks --feature-gates and --runtime-config.
const known = "../../../services/apiserver/internal/server/enablement/known/"

// featureGates returns all feature gates of kube-apiserver.
func featureGates(t *testing.T) map[featuregate.Feature]featuregate.FeatureSpec {
	t.Helper()
	// As its command does.
	if err := logsapi.AddFeatureGates(utilfeature.DefaultMutableFeatureGate); err != nil {
		t.Fatal(err)
	}
	return utilfeature.DefaultMutableFeatureGate.GetAll()
}

// compareKnown compares a list of the apiserver with Kubernetes', or writes it with -accept.
func compareKnown(t *testing.T, file string, want []string) {
	t.Helper()
	text := strings.Join(want, "\n") + "\n"
	if *accept {
		if err := os.WriteFile(known+file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(known + file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(text, "\n"), strings.Split(string(have), "\n")); diff != "" {
		t.Errorf("%s (-Kubernetes +ours):\n%s", file, diff)
	}
}

// TestFeatureGates compares the list of feature gates, their defaults and stages.
func TestFeatureGates(t *testing.T) {
	gates := featureGates(t)
	var want []string
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		gate := gates[name]
		stage := string(gate.PreRelease)
		if stage == "" {
			stage = "GA"
		}
		line := fmt.Sprintf("%s %t %s", name, gate.Default, stage)
		if gate.LockToDefault {
			line += " locked"
		}
		want = append(want, line)
	}
	compareKnown(t, "gates.txt", want)
}

// TestAPIVersions compares the list of API versions.
func TestAPIVersions(t *testing.T) {
	all := slices.Concat(legacyscheme.Scheme.PrioritizedVersionsAllGroups(),
		apiextensionsserver.Scheme.PrioritizedVersionsAllGroups(), aggregatorscheme.Scheme.PrioritizedVersionsAllGroups())
	versions := map[string]bool{}
	for _, version := range all {
		if version != (schema.GroupVersion{}) {
			versions[version.String()] = true
		}
	}
	compareKnown(t, "versions.txt", slices.Sorted(maps.Keys(versions)))
}
