package resource

import (
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// DeviceTaintRule defines the kind DeviceTaintRule.
func DeviceTaintRule() *kinds.Definition {
	type rule = *resourcev1.DeviceTaintRule
	specStatus := kinds.SpecStatusOf(func(r rule) (*resourcev1.DeviceTaintRuleSpec, *resourcev1.DeviceTaintRuleStatus) {
		return &r.Spec, &r.Status
	})
	return kinds.Of[rule]{
		Columns:  deviceTaintRuleColumns(),
		Level:    kinds.Generic,
		Default:  defaultDeviceTaintRule,
		Create:   specStatus.Begin,
		Validate: validateTaintRule,
		Update: kinds.ChangeOf[rule]{
			Prepare: specStatus.KeepStatus, Validate: func(r, _ rule) field.ErrorList { return validateTaintRule(r) },
		},
		Subresources: map[string]kinds.ChangeOf[rule]{"status": {
			Prepare:  func(r, old rule) { specStatus.KeepSpec(r, old); kinds.KeepMetadata(r, old) },
			Validate: validateTaintRuleStatus,
		}},
	}.Definition()
}

// defaultDeviceTaintRule sets the defaults of a rule that taints devices.
func defaultDeviceTaintRule(r *resourcev1.DeviceTaintRule) { deviceTaint(&r.Spec.Taint) }

func deviceTaintRuleColumns() *columns.Layout {
	doc := resourcev1.DeviceTaint{}.SwaggerDoc()
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(),
		columns.Text("Key", doc["key"]),
		columns.Text("Value", doc["value"]),
		columns.Text("Effect", doc["effect"]),
		columns.Text("TimeAdded", doc["timeAdded"]),
		columns.Age(),
	}, func(r *resourcev1.DeviceTaintRule, now time.Time) []any {
		taint, added := r.Spec.Taint, ""
		if taint.TimeAdded != nil {
			added = columns.Since(taint.TimeAdded.Time, now)
		}
		return []any{r.Name, taint.Key, taint.Value, string(taint.Effect), added, columns.AgeOf(r, now)}
	})
}
