package core

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func meta() metav1.ObjectMeta { return metav1.ObjectMeta{Name: "x", Namespace: "default"} }
