package flowcontrol

import (
	"fmt"
	"math"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/upkeep/flowcontrol"
)

// Kubernetes' limits for a priority level's queues.
const (
	maxQueues   = 10_000_000
	maxHashBits = 60
)

// preservesZero is an annotation with which an older version of the kind expressed what v1 has a
// field for.
const preservesZero = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"

// validatePriorityLevel validates a priority level.
func validatePriorityLevel(p *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&p.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	if _, ok := p.Annotations[preservesZero]; ok {
		errs = append(errs, field.Forbidden(field.NewPath("metadata", "annotations"), fmt.Sprintf("annotation '%s' is forbidden", preservesZero)))
	}
	at := field.NewPath("spec")
	errs = append(errs, levelSpec(p, at)...)
	_, levels := flowcontrol.Mandatory()
	if fixed := levels[p.Name]; fixed != nil {
		if p.Name != flowcontrolv1.PriorityLevelConfigurationNameExempt {
			if !apiequality.Semantic.DeepEqual(&p.Spec, fixed) {
				errs = append(errs, field.Invalid(at, p.Spec, fmt.Sprintf("spec of '%s' must equal the fixed value", p.Name)))
			}
		} else if fixed.Exempt = p.Spec.Exempt; !apiequality.Semantic.DeepEqual(&p.Spec, fixed) {
			errs = append(errs, field.Invalid(at, p.Spec, fmt.Sprintf("spec of '%s' except the 'spec.exempt' field must equal the fixed value", p.Name)))
		}
	}
	return append(errs, validatePriorityLevelStatus(p, nil)...)
}

func levelSpec(p *flowcontrolv1.PriorityLevelConfiguration, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	s := &p.Spec
	if (p.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt) != (s.Type == flowcontrolv1.PriorityLevelEnablementExempt) {
		errs = append(errs, field.Invalid(at.Child("type"), s.Type, "must be 'Exempt' if and only if `name` is 'exempt'"))
	}
	switch s.Type {
	case flowcontrolv1.PriorityLevelEnablementExempt:
		if s.Limited != nil {
			errs = append(errs, field.Forbidden(at.Child("limited"), "must be nil if the type is not Limited"))
		}
		if s.Exempt != nil {
			errs = append(errs, shares(s.Exempt.NominalConcurrencyShares, at.Child("exempt"))...)
			errs = append(errs, lendable(s.Exempt.LendablePercent, at.Child("exempt"))...)
		}
	case flowcontrolv1.PriorityLevelEnablementLimited:
		if s.Exempt != nil {
			errs = append(errs, field.Forbidden(at.Child("exempt"), "must be nil if the type is Limited"))
		}
		if s.Limited == nil {
			errs = append(errs, field.Required(at.Child("limited"), "must not be empty when type is Limited"))
		} else {
			errs = append(errs, limitedLevel(s.Limited, at.Child("limited"))...)
		}
	case "":
		errs = append(errs, field.Required(at.Child("type"), ""))
	default:
		errs = append(errs, field.NotSupported(at.Child("type"), s.Type, []flowcontrolv1.PriorityLevelEnablement{
			flowcontrolv1.PriorityLevelEnablementExempt, flowcontrolv1.PriorityLevelEnablementLimited,
		}))
	}
	return errs
}

func limitedLevel(l *flowcontrolv1.LimitedPriorityLevelConfiguration, at *field.Path) field.ErrorList {
	errs := shares(l.NominalConcurrencyShares, at)
	response, p := &l.LimitResponse, at.Child("limitResponse")
	switch response.Type {
	case flowcontrolv1.LimitResponseTypeReject:
		if response.Queuing != nil {
			errs = append(errs, field.Forbidden(p.Child("queuing"), "must be nil if limited.limitResponse.type is not Limited"))
		}
	case flowcontrolv1.LimitResponseTypeQueue:
		if response.Queuing == nil {
			errs = append(errs, field.Required(p.Child("queuing"), "must not be empty if limited.limitResponse.type is Limited"))
		} else {
			errs = append(errs, queuing(response.Queuing, p.Child("queuing"))...)
		}
	case "":
		errs = append(errs, field.Required(p.Child("type"), ""))
	default:
		errs = append(errs, field.NotSupported(p.Child("type"), response.Type, []flowcontrolv1.LimitResponseType{
			flowcontrolv1.LimitResponseTypeQueue, flowcontrolv1.LimitResponseTypeReject,
		}))
	}
	errs = append(errs, lendable(l.LendablePercent, at)...)
	if percent := l.BorrowingLimitPercent; percent != nil && *percent < 0 {
		errs = append(errs, field.Invalid(at.Child("borrowingLimitPercent"), *percent, "if specified, must be a non-negative integer"))
	}
	return errs
}

func queuing(q *flowcontrolv1.QueuingConfiguration, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if q.QueueLengthLimit <= 0 {
		errs = append(errs, field.Invalid(at.Child("queueLengthLimit"), q.QueueLengthLimit, "must be positive"))
	}
	if q.Queues <= 0 {
		errs = append(errs, field.Invalid(at.Child("queues"), q.Queues, "must be positive"))
	} else if q.Queues > maxQueues {
		errs = append(errs, field.Invalid(at.Child("queues"), q.Queues, fmt.Sprintf("must not be greater than %d", maxQueues)))
	}
	at = at.Child("handSize")
	switch {
	case q.HandSize <= 0:
		errs = append(errs, field.Invalid(at, q.HandSize, "must be positive"))
	case q.HandSize > q.Queues:
		errs = append(errs, field.Invalid(at, q.HandSize, fmt.Sprintf("should not be greater than queues (%d)", q.Queues)))
	case math.Ceil(math.Log2(float64(q.Queues))*float64(q.HandSize)) > maxHashBits:
		errs = append(errs, field.Invalid(at, q.HandSize,
			fmt.Sprintf("required entropy bits of deckSize %d and handSize %d should not be greater than %d", q.Queues, q.HandSize, maxHashBits)))
	}
	return errs
}

func shares(value *int32, at *field.Path) field.ErrorList {
	if value != nil && *value < 0 {
		return field.ErrorList{field.Invalid(at.Child("nominalConcurrencyShares"), *value, "must be a non-negative integer")}
	}
	return nil
}

func lendable(percent *int32, at *field.Path) field.ErrorList {
	if percent != nil && (*percent < 0 || *percent > 100) {
		return field.ErrorList{field.Invalid(at.Child("lendablePercent"), *percent, "must be between 0 and 100, inclusive")}
	}
	return nil
}

// validatePriorityLevelUpdate validates an update of a priority level.
func validatePriorityLevelUpdate(p, old *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
	return append(apivalidation.ValidateObjectMetaUpdate(&p.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata")), validatePriorityLevel(p)...)
}

// validatePriorityLevelStatus validates the status of a priority level.
func validatePriorityLevelStatus(p, _ *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
	return conditions(p.Status.Conditions, func(c flowcontrolv1.PriorityLevelConfigurationCondition) string { return string(c.Type) })
}
