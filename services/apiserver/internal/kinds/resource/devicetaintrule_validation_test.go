package resource

import (
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func TestClassesAndRules(t *testing.T) {
	class := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
	errortest.Exactly(t, validateClass(class))
	class.Spec.Selectors = make([]resourcev1.DeviceSelector, 1)
	class.Spec.Config = make([]resourcev1.DeviceClassConfiguration, 1)
	errortest.Exactly(t, validateClass(class), "spec.selectors[0].cel: Required value", "spec.config[0].opaque: Required value")

	class.Spec.Config, class.Spec.ExtendedResourceName = nil, new("kubernetes.io/gpu")
	class.Spec.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: strings.Repeat("x", 10241)}}}
	errortest.Exactly(t, validateClassUpdate(class, class), `spec.extendedResourceName: Invalid value: "kubernetes.io/gpu": must not have "kubernetes.io/" domain`)
	errortest.Contain(t, validateClass(class), "spec.selectors[0].cel.expression: Too long: may not be more than 10240 bytes")

	rule := &resourcev1.DeviceTaintRule{ObjectMeta: metav1.ObjectMeta{Name: "r"}}
	rule.Spec.Taint = resourcev1.DeviceTaint{Key: "broken", Effect: "NoExecute"}
	rule.Spec.DeviceSelector = &resourcev1.DeviceTaintSelector{Driver: new("gpu.example.com"), Pool: new("a/b"), Device: new("d")}
	errortest.Exactly(t, validateTaintRule(rule))
	rule.Spec.DeviceSelector = &resourcev1.DeviceTaintSelector{Pool: new(""), Device: new("")}
	rule.Spec.Taint = resourcev1.DeviceTaint{Key: "broken"}
	errortest.Exactly(t, validateTaintRule(rule), "spec.deviceSelector.pool: Required value",
		`spec.deviceSelector.device: Invalid value: "": `+validation.IsDNS1123Label("")[0], "spec.taint.effect: Required value")
	rule.Spec.DeviceSelector, rule.Spec.Taint.Effect = nil, "Later"
	errortest.Exactly(t, validateTaintRuleUpdate(rule, rule)) // It was there before.
	errortest.Contain(t, validateTaintRule(rule), `spec.taint.effect: Unsupported value: "Later"`)
	rule.Status.Conditions = make([]metav1.Condition, 9)
	errortest.Contain(t, validateTaintRuleStatus(rule, rule), "status.conditions: Too many: 9: must have at most 8 items")
}
