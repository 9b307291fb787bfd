package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/podtemplate"
)

// LimitRange defines the kind LimitRange.
func LimitRange() *kinds.Definition {
	return kinds.Of[*corev1.LimitRange]{
		Level:   kinds.Full,
		Default: defaultLimitRange,
		Create: func(l *corev1.LimitRange) {
			if l.Name == "" {
				l.Name = string(uuid.NewUUID())
			}
		},
		Validate:            validateLimitRange,
		Update:              kinds.ChangeOf[*corev1.LimitRange]{Validate: validateLimitRangeUpdate},
		AllowCreateOnUpdate: true,
	}.Definition()
}

// defaultLimitRange sets the defaults of a limit range: for containers, the default limit is the maximum,
// and the default request is the default limit, or else the minimum.
func defaultLimitRange(l *corev1.LimitRange) {
	for i := range l.Spec.Limits {
		item := &l.Spec.Limits[i]
		for _, list := range []corev1.ResourceList{item.Max, item.Min, item.Default, item.DefaultRequest, item.MaxLimitRequestRatio} {
			podtemplate.RoundUp(list)
		}
		if item.Type != corev1.LimitTypeContainer {
			continue
		}
		item.Default = fillFrom(item.Default, item.Max)
		item.DefaultRequest = fillFrom(item.DefaultRequest, item.Default)
		item.DefaultRequest = fillFrom(item.DefaultRequest, item.Min)
	}
}

// fillFrom adds the entries of other that list lacks.
func fillFrom(list, other corev1.ResourceList) corev1.ResourceList {
	for name, quantity := range other {
		if _, ok := list[name]; ok {
			continue
		}
		if list == nil {
			list = corev1.ResourceList{}
		}
		list[name] = quantity.DeepCopy()
	}
	return list
}
