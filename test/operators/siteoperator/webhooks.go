package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	v1 "github.com/garboard/garboard/test/operators/siteoperator/v1"
)

// requesterAnnotation has the user that requested a site.
const requesterAnnotation = "web.example.com/requested-by"

// keepAnnotation, if set, protects a site from deletion.
const keepAnnotation = "web.example.com/keep"

var (
	_ admission.Defaulter[*v1.Site] = defaulter{}
	_ admission.Validator[*v1.Site] = validator{}
)

// defaulter fills in what a schema cannot: values that depend on others, and on the user.
type defaulter struct{}

// Default fills in the page, and the user that creates a site.
func (defaulter) Default(ctx context.Context, site *v1.Site) error {
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return err
	}
	if site.Spec.Page == "" && len(site.Spec.Hosts) > 0 {
		site.Spec.Page = "Welcome to " + site.Spec.Hosts[0]
	}
	if request.Operation == "CREATE" {
		if site.Annotations == nil {
			site.Annotations = map[string]string{}
		}
		site.Annotations[requesterAnnotation] = request.UserInfo.Username
	}
	return nil
}

// validator checks what a schema cannot: a site beside all others.
type validator struct{ sites client.Reader }

// ValidateCreate refuses hosts of other sites.
func (v validator) ValidateCreate(ctx context.Context, site *v1.Site) (admission.Warnings, error) {
	return v.validate(ctx, site)
}

// ValidateUpdate refuses hosts of other sites.
func (v validator) ValidateUpdate(ctx context.Context, _, site *v1.Site) (admission.Warnings, error) {
	return v.validate(ctx, site)
}

// ValidateDelete refuses to delete a protected site.
func (v validator) ValidateDelete(_ context.Context, site *v1.Site) (admission.Warnings, error) {
	if site.Annotations[keepAnnotation] != "" {
		return nil, errors.New("the site is to be kept: remove its annotation " + keepAnnotation)
	}
	return nil, nil
}

func (v validator) validate(ctx context.Context, site *v1.Site) (admission.Warnings, error) {
	var others v1.SiteList
	if err := v.sites.List(ctx, &others); err != nil {
		return nil, fmt.Errorf("reading the other sites: %w", err)
	}
	for i := range others.Items {
		other := &others.Items[i]
		if other.UID == site.UID || other.Namespace == site.Namespace && other.Name == site.Name {
			continue
		}
		for _, host := range site.Spec.Hosts {
			if slices.Contains(other.Spec.Hosts, host) {
				return nil, fmt.Errorf("site %s/%s has the host %s", other.Namespace, other.Name, host)
			}
		}
	}
	if site.Spec.Tier == v1.Free {
		return admission.Warnings{"a free site shows advertisements"}, nil
	}
	return nil, nil
}
