package resource

import (
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
			Prepare: func(r, old rule) {
				// A taint with another effect is a new one, unless the client says when it was added.
				if now, was := &r.Spec.Taint, &old.Spec.Taint; now.Effect != was.Effect && now.TimeAdded.Equal(was.TimeAdded) {
					now.TimeAdded = nil
					deviceTaint(now)
				}
				specStatus.KeepStatus(r, old)
			},
			Validate: validateTaintRuleUpdate,
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
