package resource

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func TestSlice(t *testing.T) {
	const one = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
	for name, tc := range map[string]struct {
		change func(*resourcev1.ResourceSliceSpec)
		want   []string
	}{
		"good":          {func(*resourcev1.ResourceSliceSpec) {}, nil},
		"pool":          {func(s *resourcev1.ResourceSliceSpec) { s.Pool = resourcev1.ResourcePool{Generation: -1} }, []string{"spec.pool.name: Required value", "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero", "spec.pool.generation: Invalid value: -1: must be greater than or equal to zero"}},
		"long":          {func(s *resourcev1.ResourceSliceSpec) { s.Driver = strings.Repeat("d", 64) }, []string{"spec.driver: Too long: may not be more than 63 bytes"}},
		"no node field": {func(s *resourcev1.ResourceSliceSpec) { s.NodeName = nil }, []string{"spec: Required value: " + one}},
		"two":           {func(s *resourcev1.ResourceSliceSpec) { s.AllNodes = new(true) }, []string{"spec: Invalid value: \"{`nodeName`, `allNodes`}\": " + one + ", but multiple fields are set"}},
		"unsaid":        {func(s *resourcev1.ResourceSliceSpec) { s.AllNodes, s.PerDeviceNodeSelection = new(false), new(false) }, []string{"spec.allNodes: Invalid value: false: must be either unset or set to true", "spec.perDeviceNodeSelection: Invalid value: false: must be either unset or set to true"}},
		"empty":         {func(s *resourcev1.ResourceSliceSpec) { s.NodeName, s.AllNodes = new(""), new(true) }, []string{`spec.nodeName: Invalid value: "": must be either unset or set to a non-empty string`}},
		"terms": {func(s *resourcev1.ResourceSliceSpec) {
			term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: "Exists"}}}
			s.NodeName, s.NodeSelector = nil, &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}}
		}, nil},
		"counters": {func(s *resourcev1.ResourceSliceSpec) {
			s.SharedCounters = []resourcev1.CounterSet{{Name: "c", Counters: map[string]resourcev1.Counter{"m": {}}}}
		}, []string{"spec: Invalid value: \"\": only one of `sharedCounters` or `devices` is allowed"}},
		"devices": {func(s *resourcev1.ResourceSliceSpec) {
			s.Devices = []resourcev1.Device{{Name: "d"}, {Name: "d"}, {Taints: []resourcev1.DeviceTaint{{Key: "k", Effect: "Odd"}}}}
		}, []string{
			`spec.devices[2].name: Invalid value: "": ` + validation.IsDNS1123Label("")[0],
			`spec.devices[2].taints[0].effect: Unsupported value: "Odd": supported values: "NoExecute", "NoSchedule", "None"`,
			`spec.devices[1]: Duplicate value: "d"`,
		}},
		"too many": {func(s *resourcev1.ResourceSliceSpec) { s.Devices = make([]resourcev1.Device, 129) }, []string{"spec.devices: Too many: 129: must have at most 128 items"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSlice()
			tc.change(&s.Spec)
			errortest.Exactly(t, validateSlice(s), tc.want...)
		})
	}
	old, s := newSlice(), newSlice()
	errortest.Exactly(t, validateSliceUpdate(s, old))
	s.Spec.Pool.Name, s.Spec.Driver, s.Spec.NodeName = "other", "other", new("other")
	errortest.Exactly(t, validateSliceUpdate(s, old), `spec.pool.name: Invalid value: "other": field is immutable`,
		`spec.driver: Invalid value: "other": field is immutable`, `spec.nodeName: Invalid value: "other": field is immutable`)
}

func newSlice() *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
	s.Spec = resourcev1.ResourceSliceSpec{
		Driver: "gpu.example.com", Pool: resourcev1.ResourcePool{Name: "p", ResourceSliceCount: 1},
		NodeName: new("n"), Devices: []resourcev1.Device{{Name: "d"}},
	}
	return s
}
