// Package enforcement says what holds Clusters without a topology back, for which Cluster
// API calls no hooks: whether the API server asks about them. Who asks in the place of
// Cluster API, the controller of policies and admission all ask here, so that what is told
// is what is done.
//
// It may import the API, and nothing else of this repository.
package enforcement
