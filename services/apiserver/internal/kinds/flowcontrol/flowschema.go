package flowcontrol

import (
	"cmp"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// FlowSchema defines the kind FlowSchema.
func FlowSchema() *kinds.Definition {
	type schema = *flowcontrolv1.FlowSchema
	specStatus := kinds.SpecStatusOf(func(s schema) (*flowcontrolv1.FlowSchemaSpec, *flowcontrolv1.FlowSchemaStatus) {
		return &s.Spec, &s.Status
	})
	return kinds.Of[schema]{
		Columns:  flowSchemaColumns(),
		Level:    kinds.Full,
		Default:  defaultFlowSchema,
		Create:   specStatus.Begin,
		Validate: validateFlowSchema,
		Update:   kinds.ChangeOf[schema]{Prepare: specStatus.KeepStatus, Validate: validateFlowSchemaUpdate},
		Subresources: map[string]kinds.ChangeOf[schema]{"status": {
			Prepare: func(s, old schema) {
				specStatus.KeepSpec(s, old)
				kinds.KeepAllMetadata(s, old)
			},
			Validate: validateFlowSchemaStatus,
		}},
	}.Definition()
}

// matchingPrecedence is the default of a flow schema, in the middle of its range of 1 to 10,000.
const matchingPrecedence = 1000

// defaultFlowSchema sets the defaults of a flow schema.
func defaultFlowSchema(s *flowcontrolv1.FlowSchema) {
	kinds.FillNumber(&s.Spec.MatchingPrecedence, matchingPrecedence)
}

func flowSchemaColumns() *columns.Layout {
	spec := flowcontrolv1.FlowSchemaSpec{}.SwaggerDoc()
	l := columns.Of([]metav1.TableColumnDefinition{
		columns.Name(),
		columns.Text("PriorityLevel", flowcontrolv1.PriorityLevelConfigurationReference{}.SwaggerDoc()["name"]),
		columns.Text("MatchingPrecedence", spec["matchingPrecedence"]),
		columns.Text("DistinguisherMethod", spec["distinguisherMethod"]),
		columns.Age(),
		columns.Text("MissingPL", "references a broken or non-existent PriorityLevelConfiguration"),
	}, func(s *flowcontrolv1.FlowSchema, now time.Time) []any {
		method, missing := columns.None, "?"
		if s.Spec.DistinguisherMethod != nil {
			method = string(s.Spec.DistinguisherMethod.Type)
		}
		for _, condition := range s.Status.Conditions {
			if condition.Type == flowcontrolv1.FlowSchemaConditionDangling {
				missing = string(condition.Status)
				break
			}
		}
		return []any{s.Name, s.Spec.PriorityLevelConfiguration.Name, int64(s.Spec.MatchingPrecedence), method, columns.AgeOf(s, now), missing}
	})
	l.Order = func(a, b scheme.Object) int {
		x, okX := a.(*flowcontrolv1.FlowSchema)
		y, okY := b.(*flowcontrolv1.FlowSchema)
		if !okX || !okY {
			return 0
		}
		return cmp.Or(cmp.Compare(x.Spec.MatchingPrecedence, y.Spec.MatchingPrecedence), cmp.Compare(x.Name, y.Name))
	}
	return l
}

func conditions[T any](list []T, kind func(T) string) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, condition := range list {
		at, kind := field.NewPath("status", "conditions").Index(i).Child("type"), kind(condition)
		if seen[kind] {
			errs = append(errs, field.Duplicate(at, kind))
		}
		seen[kind] = true
		if kind == "" {
			errs = append(errs, field.Required(at, ""))
		}
	}
	return errs
}
