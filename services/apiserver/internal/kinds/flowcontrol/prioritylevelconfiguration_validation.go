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
	exempt, limited := s.Type == flowcontrolv1.PriorityLevelEnablementExempt, s.Type == flowcontrolv1.PriorityLevelEnablementLimited
	if (p.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt) != exempt {
		errs = append(errs, field.Invalid(at.Child("type"), s.Type, "must be 'Exempt' if and only if `name` is 'exempt'"))
	}
	switch {
	case s.Type == "":
		errs = append(errs, field.Required(at.Child("type"), ""))
	case !exempt && !limited:
		errs = append(errs, field.NotSupported(at.Child("type"), s.Type, []flowcontrolv1.PriorityLevelEnablement{
			flowcontrolv1.PriorityLevelEnablementExempt, flowcontrolv1.PriorityLevelEnablementLimited,
		}))
	}
	switch {
	case s.Exempt == nil:
	case !exempt:
		errs = append(errs, field.Forbidden(at.Child("exempt"), ""))
	default:
		errs = append(errs, shares(s.Exempt.NominalConcurrencyShares, at.Child("exempt"))...)
		errs = append(errs, lendable(s.Exempt.LendablePercent, at.Child("exempt"))...)
	}
	switch {
	case s.Limited == nil && limited:
		errs = append(errs, field.Required(at.Child("limited"), ""))
	case s.Limited != nil:
		errs = append(errs, discriminated(&s.Limited.LimitResponse, at.Child("limited", "limitResponse"))...)
		if !limited {
			errs = append(errs, field.Forbidden(at.Child("limited"), ""))
		} else {
			errs = append(errs, limitedLevel(s.Limited, at.Child("limited"))...)
		}
	}
	return errs
}

// discriminated checks that a response has a type, and queues exactly if it is of the type that queues.
// Kubernetes checks this also in levels that must not have a response.
func discriminated(r *flowcontrolv1.LimitResponse, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if r.Type == "" {
		errs = append(errs, field.Required(at.Child("type"), ""))
	}
	switch queues := r.Type == flowcontrolv1.LimitResponseTypeQueue; {
	case queues && r.Queuing == nil:
		errs = append(errs, field.Required(at.Child("queuing"), ""))
	case !queues && r.Queuing != nil:
		errs = append(errs, field.Forbidden(at.Child("queuing"), ""))
	}
	return errs
}

func limitedLevel(l *flowcontrolv1.LimitedPriorityLevelConfiguration, at *field.Path) field.ErrorList {
	errs := shares(l.NominalConcurrencyShares, at)
	switch response, p := &l.LimitResponse, at.Child("limitResponse"); response.Type {
	case flowcontrolv1.LimitResponseTypeReject, "":
	case flowcontrolv1.LimitResponseTypeQueue:
		if response.Queuing != nil {
			errs = append(errs, queuing(response.Queuing, p.Child("queuing"))...)
		}
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
