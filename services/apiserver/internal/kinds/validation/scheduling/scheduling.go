package scheduling

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/values"
)

const (
	minWeight = 1
	maxWeight = 100
)

// Tolerations checks a pod's tolerations.
func Tolerations(list []corev1.Toleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, t := range list {
		at := path.Index(i)
		if t.Key != "" {
			errs = append(errs, metav1validation.ValidateLabelName(t.Key, at.Child("key"))...)
		} else if t.Operator != corev1.TolerationOpExists {
			errs = append(errs, field.Invalid(at.Child("operator"), t.Operator,
				"operator must be Exists when `key` is empty, which means \"match all values and all keys\""))
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			errs = append(errs, field.Invalid(at.Child("effect"), t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
		}
		switch t.Operator {
		case corev1.TolerationOpEqual, "":
			if msgs := validation.IsValidLabelValue(t.Value); len(msgs) > 0 {
				errs = append(errs, field.Invalid(at.Child("operator"), t.Value, strings.Join(msgs, ";")))
			}
		case corev1.TolerationOpExists:
			if t.Value != "" {
				errs = append(errs, field.Invalid(at.Child("operator"), t.Value, "value must be empty when `operator` is 'Exists'"))
			}
		case corev1.TolerationOpLt, corev1.TolerationOpGt: // Known, but not enabled by default.
			errs = append(errs, field.NotSupported(at.Child("operator"), t.Operator,
				[]corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists, corev1.TolerationOpLt, corev1.TolerationOpGt}))
		default:
			errs = append(errs, field.NotSupported(at.Child("operator"), t.Operator,
				[]corev1.TolerationOperator{corev1.TolerationOpEqual, corev1.TolerationOpExists}))
		}
		if t.Effect != "" {
			errs = append(errs, taintEffect(t.Effect, at.Child("effect"))...)
		}
	}
	return errs
}

// Taints checks a node's taints.
func Taints(list []corev1.Taint, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[corev1.TaintEffect]sets.Set[string]{}
	for i, taint := range list {
		at := path.Index(i)
		errs = append(errs, values.QualifiedName(taint.Key, at.Child("key"))...)
		if wrong := validation.IsValidLabelValue(taint.Value); len(wrong) > 0 {
			errs = append(errs, field.Invalid(at.Child("value"), taint.Value, strings.Join(wrong, ";")))
		}
		if taint.Effect == "" {
			errs = append(errs, field.Required(at.Child("effect"), ""))
		} else {
			errs = append(errs, taintEffect(taint.Effect, at.Child("effect"))...)
		}
		if seen[taint.Effect].Has(taint.Key) {
			duplicate := field.Duplicate(at, taint)
			duplicate.Detail = "taints must be unique by key and effect pair"
			errs = append(errs, duplicate)
			continue
		}
		if seen[taint.Effect] == nil {
			seen[taint.Effect] = sets.New[string]()
		}
		seen[taint.Effect].Insert(taint.Key)
	}
	return errs
}

func taintEffect(effect corev1.TaintEffect, path *field.Path) field.ErrorList {
	switch effect {
	case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		return nil
	}
	return field.ErrorList{field.NotSupported(path, effect, []corev1.TaintEffect{
		corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute,
	})}
}

func Affinity(a *corev1.Affinity, path *field.Path) field.ErrorList {
	if a == nil {
		return nil
	}
	var errs field.ErrorList
	if node := a.NodeAffinity; node != nil {
		at := path.Child("nodeAffinity")
		if required := node.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
			errs = append(errs, NodeSelector(required, at.Child("requiredDuringSchedulingIgnoredDuringExecution"))...)
		}
		for i, term := range node.PreferredDuringSchedulingIgnoredDuringExecution {
			p := at.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i)
			errs = append(errs, weight(term.Weight, p.Child("weight"))...)
			errs = append(errs, nodeTerm(term.Preference, true, p.Child("preference"))...)
		}
	}
	if pods := a.PodAffinity; pods != nil {
		errs = append(errs, podTerms(pods.RequiredDuringSchedulingIgnoredDuringExecution, pods.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAffinity"))...)
	}
	if pods := a.PodAntiAffinity; pods != nil {
		errs = append(errs, podTerms(pods.RequiredDuringSchedulingIgnoredDuringExecution, pods.PreferredDuringSchedulingIgnoredDuringExecution, path.Child("podAntiAffinity"))...)
	}
	return errs
}

func weight(value int32, path *field.Path) field.ErrorList {
	if value < minWeight || value > maxWeight {
		return field.ErrorList{field.Invalid(path, value, "must be in the range 1-100")}
	}
	return nil
}

// NodeSelector validates the terms of a node selector.
func NodeSelector(selector *corev1.NodeSelector, path *field.Path) field.ErrorList {
	at := path.Child("nodeSelectorTerms")
	if len(selector.NodeSelectorTerms) == 0 {
		return field.ErrorList{field.Required(at, "must have at least one node selector term")}
	}
	var errs field.ErrorList
	for i, term := range selector.NodeSelectorTerms {
		errs = append(errs, nodeTerm(term, false, at.Index(i))...)
	}
	return errs
}

// nodeTerm checks a term of a node selector. A preferred one may have values that no label can have: there
// is only a warning about these.
func nodeTerm(term corev1.NodeSelectorTerm, preferred bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, requirement := range term.MatchExpressions {
		at := path.Child("matchExpressions").Index(i)
		errs = append(errs, requirementValues(requirement, at)...)
		errs = append(errs, metav1validation.ValidateLabelName(requirement.Key, at.Child("key"))...)
		for j, value := range requirement.Values {
			if !preferred {
				errs = append(errs, values.Invalid(at.Child("values").Index(j), value, validation.IsValidLabelValue(value))...)
			}
		}
	}
	for i, requirement := range term.MatchFields {
		at := path.Child("matchFields").Index(i)
		switch requirement.Operator {
		case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
			if len(requirement.Values) != 1 {
				errs = append(errs, field.Required(at.Child("values"), "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"))
			}
		default:
			errs = append(errs, field.Invalid(at.Child("operator"), requirement.Operator, "not a valid selector operator"))
		}
		if requirement.Key != metav1.ObjectNameField {
			errs = append(errs, field.Invalid(at.Child("key"), requirement.Key, "not a valid field selector key"))
			continue
		}
		for j, value := range requirement.Values {
			errs = append(errs, values.Invalid(at.Child("values").Index(j), value, apivalidation.NameIsDNSSubdomain(value, false))...)
		}
	}
	return errs
}

func requirementValues(r corev1.NodeSelectorRequirement, path *field.Path) field.ErrorList {
	switch r.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if len(r.Values) == 0 {
			return field.ErrorList{field.Required(path.Child("values"), "must be specified when `operator` is 'In' or 'NotIn'")}
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if len(r.Values) > 0 {
			return field.ErrorList{field.Forbidden(path.Child("values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")}
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(r.Values) != 1 {
			return field.ErrorList{field.Required(path.Child("values"), "must be specified single value when `operator` is 'Lt' or 'Gt'")}
		}
	default:
		return field.ErrorList{field.Invalid(path.Child("operator"), r.Operator, "not a valid selector operator")}
	}
	return nil
}

func podTerms(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, term := range required {
		errs = append(errs, podTerm(term, path.Child("requiredDuringSchedulingIgnoredDuringExecution").Index(i))...)
	}
	for i, term := range preferred {
		at := path.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i)
		errs = append(errs, weight(term.Weight, at.Child("weight"))...)
		errs = append(errs, podTerm(term.PodAffinityTerm, at.Child("podAffinityTerm"))...)
	}
	return errs
}
