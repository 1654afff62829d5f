"""aotattn: attention kernels compiled ahead of time.

    import aotattn.torch                            registers the library with PyTorch
    activate_flash_attention_impl("aotattn")        from torch.nn.attention; F.scaled_dot_product_attention uses it now

`aotattn.runtime` is the C library through ctypes; `aotattn --help` lists the commands.
"""
