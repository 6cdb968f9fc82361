"""Training stages: started as processes, recorded, published, verified, and the weights they leave."""
