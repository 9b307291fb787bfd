// Package service defines Services and Endpoints.
package service
